"""Keeping: nobody takes a skill away by accident, and who wants it away gets that."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gateway.shelf import keeping
from gateway.shelf.packing import Packer
from gateway.store import Store, script_of
from skills import contents
from tests.gateway.shelf.world import World
from tests.skills.test_library import write


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    write(made.root, "web-access", body="OURS.\n")
    await made.publish()
    return made


async def reload(world: World, packer: Packer | None = None) -> None:
    """Somebody wishes for what is there, and the one who packs looks."""
    await world.store.run(script_of("gateway.shelf", "reload_want"), world.store.layout.skills_root, world.change().id)
    assert await (packer or world.packer).step()
    seen = await world.shelf.look()
    assert seen.wanted == seen.done


async def next_packer(world: World) -> Packer:
    """That of another process, which never saw what there was."""
    await world.store.redis.delete(f"{world.store.layout.skills_root}:packer")
    return world.another_packer("two")


async def packers(world: World) -> AsyncIterator[Packer]:
    """The one that saw everything, and then the next."""
    yield world.packer
    yield await next_packer(world)


async def in_force(world: World, id_: str = "web-access") -> tuple[str, str]:
    """Where a skill comes from, and its first line."""
    skill = (await world.here()).find(id_)
    await world.shelf.stock.at_hand(skill)
    return skill.tier, contents.body(skill).partition("\n")[0]


async def faults(world: World) -> list[tuple[str, str, bool]]:
    return [(one.id, one.kind, one.kept) for one in (await world.here()).library.faults]


@asynccontextmanager
async def meanwhile(work: Callable[[int], object]) -> AsyncIterator[None]:
    """Somebody is at it again and again, a hundred times a second."""

    async def again() -> None:
        number = 0
        while True:
            work(number := number + 1)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_an_empty_folder_keeps_its_skills_until_there_are_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    away = world.root.rename(world.path / "away")
    world.root.mkdir()  # what an unmount leaves behind
    async for packer in packers(world):
        assert await packer.step()
        assert await in_force(world) == ("org", "OURS.")
        assert await faults(world) == [("", "empty", True)]
    assert [one.levelname for one in caplog.records if "it is empty" in one.getMessage()][:1] == ["WARNING"]
    world.root.rmdir()
    away.rename(world.root)
    assert await packer.step()
    assert (await in_force(world), await faults(world)) == (("org", "OURS."), [])


async def test_a_reload_takes_an_empty_folder_as_it_is(world: World) -> None:
    shutil.rmtree(world.root / "web-access")
    await world.publish()
    assert (await in_force(world))[0] == "org"
    await reload(world)
    assert ((await in_force(world))[0], await faults(world)) == ("builtin", [])
    async for packer in packers(world):
        assert await packer.step()
        assert (await in_force(world))[0] == "builtin"


async def test_a_reload_after_the_gateway_was_started_anew_takes_an_empty_folder_too(world: World) -> None:
    shutil.rmtree(world.root / "web-access")
    await reload(world, await next_packer(world))
    assert ((await in_force(world))[0], await faults(world)) == ("builtin", [])


async def test_one_of_several_is_gone_at_once_when_its_folder_is(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    shutil.rmtree(world.root / "web-access")
    await world.publish()
    assert ((await in_force(world))[0], await faults(world)) == ("builtin", [])


async def test_who_is_kept_for_its_file_or_its_writer_is_gone_at_once_when_its_folder_is(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    (world.root / "web-access" / "SKILL.md").unlink()
    await world.publish()
    assert await faults(world) == [("web-access", "gone", True)]
    shutil.rmtree(world.root / "web-access")
    await world.publish()
    assert ((await in_force(world))[0], await faults(world)) == ("builtin", [])

    folder = write(world.root, "web-access", body="OURS.\n")
    await world.publish()
    async with meanwhile(lambda number: (folder / "facts.md").write_text("x" * number)):
        await world.publish()
        assert await in_force(world) == ("org", "OURS.")
    shutil.rmtree(folder)
    await world.publish()
    assert (await in_force(world))[0] == "builtin"


async def test_a_skill_without_its_file_stays_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.root / "web-access" / "SKILL.md"
    file.with_name("notes.md").write_text("facts")
    await world.publish()
    text = file.read_text()
    file.unlink()
    last = world.packer
    async for last in packers(world):
        assert await last.step()
        assert (await in_force(world), await faults(world)) == (("org", "OURS."), [("web-access", "gone", True)])
    file.write_text(text)
    assert await last.step()
    assert (await in_force(world), await faults(world)) == (("org", "OURS."), [])
    file.unlink()
    monkeypatch.setattr(keeping, "GONE_S", 0.2)
    assert await last.step()
    assert await in_force(world) == ("org", "OURS.")
    async with asyncio.timeout(30):
        while (await in_force(world))[0] == "org":
            assert await last.step()
    assert await faults(world) == []


async def test_a_reload_takes_a_skill_without_its_file_away_at_once(world: World) -> None:
    (world.root / "web-access" / "SKILL.md").unlink()
    await reload(world)
    assert ((await in_force(world))[0], await faults(world)) == ("builtin", [])


async def test_half_a_file_is_never_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.root / "web-access" / "SKILL.md"
    write(world.root, "report")
    write(world.root, "zoo")
    number = await world.publish()
    whole = file.read_text().replace("OURS.", "WHOLE.") + "".join(f"Step {step}.\n" for step in range(1_000))
    with file.open("w") as written:

        def on(step: int) -> None:
            written.write(whole[100 * (step - 1) : 100 * step])
            written.flush()

        async with meanwhile(on):
            assert await world.publish() == number
            assert await world.publish() == number, "nothing is told of it for a while"
            assert (await in_force(world), await faults(world)) == (("org", "OURS."), [])
            write(world.root, "report", body="Other.\n")
            await world.publish()
            assert await in_force(world, "report") == ("org", "Other."), "others need not wait"
            assert await (await next_packer(world)).step()
            assert await in_force(world) == ("org", "OURS."), "for who never saw it too"
            await reload(world, await next_packer(world))
            assert (await in_force(world), await faults(world)) == (("org", "OURS."), [("web-access", "writing", True)])
            monkeypatch.setattr(keeping, "WRITING_S", 0)
            assert await (await next_packer(world)).step()
            assert await faults(world) == [("web-access", "writing", True)]
    file.write_text(whole)
    assert await (await next_packer(world)).step()
    skill = (await world.here()).find("web-access")
    assert (skill.skill_md.size_bytes, await faults(world)) == (len(whole), [])


async def test_a_new_skill_counts_when_it_rests(world: World) -> None:
    folder = write(world.root, "report")
    async with meanwhile(lambda number: (folder / "facts.md").write_text("x" * number)):
        await world.publish()
        assert await world.names() == ["skill-writing", "web-access"]
        assert await faults(world) == []
    await world.publish()
    assert await world.names() == ["report", "skill-writing", "web-access"]


@pytest.mark.parametrize("thing", ["web-access", "web-access/SKILL.md"])
async def test_what_is_exchanged_by_renaming_is_never_away(world: World, thing: str) -> None:
    write(world.root, "report")
    await world.publish()
    there, away = world.root / thing, world.root / ".away"

    def exchange(_: int) -> None:
        there.rename(away) if there.exists() else away.rename(there)

    async with meanwhile(exchange):
        for _ in range(5):
            await world.publish()
            assert (await in_force(world), await faults(world)) == (("org", "OURS."), [])
    if away.exists():
        away.rename(there)
    await world.publish()
    assert (await in_force(world), await faults(world)) == (("org", "OURS."), [])
