from gateway.store import Script, Store


async def test_the_store_of_a_test_reaches_a_real_server(store: Store) -> None:
    echo = Script("echo", "return ARGV[1]")
    assert await store.run(echo, store.layout.root(0), "hello") == b"hello"
