from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text import mrkdwn
from gateway.text.dialect import ZERO_WIDTH
from tests.harness.cpu import cpu_within

ZW = ZERO_WIDTH


@pytest.mark.parametrize(
    ("incoming", "read"),
    [
        (
            (
                "alert when load &gt; 5 &amp;&amp; disk &lt; 10, see <https://example.com/?a=1&amp;b=2|the page> "
                "<#C0CHAN1|ops> cc <@U0USER2> &amp;lt;b&amp;gt; &copy;"
            ),
            (
                "alert when load > 5 && disk < 10, see the page (https://example.com/?a=1&b=2) "
                "#ops cc @Ann &lt;b&gt; &copy;"
            ),
        ),
        ("<!here> <!channel|channel> <!subteam^S1|@devs> <!date^1^{date}|today>", "@here @channel @devs today"),
        (
            "<mailto:a@b.example|a@b.example> <https://b.example> <http://b.example|b.example>",
            "a@b.example https://b.example http://b.example",
        ),
        ("<#C0CHAN1|> <#C0CHAN1> <@U9|bob>", "#C0CHAN1 #C0CHAN1 @bob"),
        ("a < b and &amp;amp; <", "a < b and &amp; <"),
        ("nul\x00 gone", "nul gone"),
    ],
)
def test_incoming_text_is_read_as_people_see_it(incoming: str, read: str) -> None:
    assert mrkdwn.read(incoming, names={"U0USER2": "Ann"}) == read


@pytest.mark.parametrize(
    ("incoming", "read"),
    [
        ("<@U0BOT01> hi", "hi"),
        ("<@U0BOT01|bot>: hi", "hi"),
        ("  <@U0BOT01>，你好", "你好"),
        ("<@U0BOT01> <@U0BOT01> hi", "hi"),
        ("<@U0BOT01>", ""),
        ("status please <@U0BOT01>", "status please"),
        ("ask <@U0BOT01> about it", "ask @U0BOT01 about it"),
        ("<@U0BOT011> hi", "@U0BOT011 hi"),
        ("<@U0BOT01> &amp; <@U0USER2>", "& @U0USER2"),
    ],
)
def test_our_own_mention_is_left_out_at_the_ends(incoming: str, read: str) -> None:
    assert mrkdwn.read(incoming, own={"U0BOT01"}) == read


def test_a_mention_is_found_with_and_without_its_label() -> None:
    assert mrkdwn.mentions("x <@U1> y", {"U1"})
    assert mrkdwn.mentions("x <@U1|bob> y", {"U1"})
    assert not mrkdwn.mentions("x <@U12> U1 y", {"U1"})


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("**bold** and *italic* and ***both*** and ~~gone~~", "*bold* and _italic_ and *_both_* and ~gone~"),
        ("__bold__ _italic_ snake_case_name 2 * 3 * 4", "*bold* _italic_ snake_case_name 2 * 3 * 4"),
        ("*nested **bold** inside*", "_nested *bold* inside_"),
        ("Set **order_item_id** to a_b - it costs $5.00!", "Set *order_item_id* to a_b - it costs $5.00!"),
        ("an open ` backtick", "an open ` backtick"),
        ("`a < **b**` and ``x`y``", "`a &lt; **b**` and `x`y`"),
        ("# Title **x**", "*Title x*"),
        ("- one\n  - two\n* [x] done\n+ [ ] open", "• one\n  ◦ two\n• ☑ done\n• ☐ open"),
        ("> said **he**", "&gt; said *he*"),
        ("***\n---", "———\n———"),
        (
            "[link](http://example.com/x_(y)) <https://a.example/b_c>",
            "<http://example.com/x_(y)|link> <https://a.example/b_c>",
        ),
        ("https://a.example/x_y_z?a=1&b=2 **b**", "https://a.example/x_y_z?a=1&amp;b=2 *b*"),
        ("见 https://a.example/x，然后**看**", f"见 <https://a.example/x>，然后{ZW}*看*"),
        ("![graph](https://a.example/g.png)", "<https://a.example/g.png|graph>"),
        ("[run](javascript:alert(1))", "run (javascript:alert(1))"),
        ("[relative](docs/x.md)", "relative (docs/x.md)"),
        (r"\*not bold\* \<", "*not bold* &lt;"),
        ("```python\na < b\n```\nafter", "```\na &lt; b\n```\nafter"),
        ("~~~\n```\n~~~", f"```\n``{ZW}`\n```"),
        ("```\nstill growing", "```\nstill growing\n```"),
        ("``` all <b> words\ncode\n```", "```\nall &lt;b&gt; words\ncode\n```"),
        ("```sh -x\ncode\n```", "```\ncode\n```"),
        ("&lt;b&gt; &copy; & <i>", "&amp;lt;b&amp;gt; &amp;copy; &amp; &lt;i&gt;"),
    ],
)
def test_markdown_becomes_slack_s_dialect(markdown: str, written: str) -> None:
    assert mrkdwn.write(markdown) == written


def test_bold_inside_chinese_and_korean_gets_borders_where_needed_only() -> None:
    written = mrkdwn.write("请先看**截止日期**再回复，备注「**加急**」。오늘**마감**입니다 **ok** (**x**)")
    assert written == (f"请先看{ZW}*截止日期*{ZW}再回复，备注「{ZW}*加急*{ZW}」。오늘{ZW}*마감*{ZW}입니다 *ok* (*x*)")


def test_a_table_is_aligned_by_display_width_without_marks() -> None:
    table = "| 功能 | Before | After |\n|---|---|---|\n| **速度** | 10 ms | 7 ms |\n| a \\| b | `x|y` | |\nafter"
    assert mrkdwn.write(table).split("\n") == [
        "```",
        "功能  | Before | After",
        "------+--------+------",
        "速度  | 10 ms  | 7 ms",
        "a | b | x|y    |",
        "```",
        "after",
    ]


def test_a_table_is_as_wide_as_its_widest_row() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 | EXTRA |\n| 3 |\n| 4 | 5 | | MORE |"
    assert mrkdwn.write(table).split("\n") == [
        "```",
        "a | b |       |",
        "--+---+-------+-----",
        "1 | 2 | EXTRA |",
        "3 |   |       |",
        "4 | 5 |       | MORE",
        "```",
    ]


BROADCASTS = "<!channel> <!here> <@U0USER9> @everyone @here <@&777> <https://evil.example|https://bank.example>"


@pytest.mark.parametrize(
    "frame", ["{}", "`{}`", "```\n{}\n```", "**{}**", "# {}", "| a |\n|---|\n| {} |", "> {}", "- {}"]
)
def test_no_text_of_ours_calls_anybody(frame: str) -> None:
    for written in (mrkdwn.write(frame.format(BROADCASTS)), mrkdwn.escape(frame.format(BROADCASTS))):
        assert "<" not in written
        assert not re.search(r"@(here|everyone|channel)", written)
        assert mrkdwn.read(written).replace(ZW, "").count("<!channel>") == 1


@given(st.text(alphabet="<>!@#&|;:/.ahttps()[]*_`~-\\ \nU1here", max_size=200))
@settings(max_examples=300, deadline=None)
def test_only_a_link_can_be_live_in_what_is_written(markdown: str) -> None:
    for token in re.findall(r"<([^>]*)>", mrkdwn.write(markdown)):
        assert re.match(r"(https?://|mailto:)", token)
    assert "<" not in mrkdwn.write(markdown).replace("<http", "").replace("<mailto:", "")


@given(st.text(max_size=200).filter(lambda text: "\x00" not in text))
@settings(max_examples=200, deadline=None)
def test_escaped_text_is_read_back_as_it_was(text: str) -> None:
    assert mrkdwn.read(mrkdwn.escape(text)).replace(ZW, "") == text.replace(ZW, "").strip()


@pytest.mark.parametrize(
    ("link", "written"),
    [
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[bank.example/login](https://evil.example)", "bank.example/login (https://evil.example)"),
        ("[www.bank.example](https://bank.example/a)", "<https://bank.example/a|www.bank.example>"),
        ("[see | this > that](https://a.example/?a|b)", "<https://a.example/?a%7Cb|see  this &gt; that>"),
    ],
)
def test_a_link_does_not_hide_where_it_goes(link: str, written: str) -> None:
    assert mrkdwn.write(link) == written


@pytest.mark.parametrize(
    "hostile",
    [
        "**a **a ",
        "[a",
        "`",
        "[[](",
        "*a_",
        "_a *b **c ~~d ",
        "**__",
        "![a](",
        "***a",
        "[x]((",
        "https://a/(",
        "<http://",
        "\\",
    ],
)
def test_hostile_markdown_costs_no_time(hostile: str) -> None:
    with cpu_within(0.5):
        mrkdwn.write((hostile * 4_000)[:4_000])
        mrkdwn.read((hostile * 4_000)[:4_000], own={"U1"})
