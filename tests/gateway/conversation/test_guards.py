"""Each guard of the mailbox, taken out of a copy of its script: a scenario must end badly without it."""

from __future__ import annotations

import pytest

from gateway.conversation import mailbox
from gateway.conversation.claim import Lost
from gateway.store import Layout, Script
from tests.gateway.conversation import scenarios
from tests.gateway.conversation.world import World

TAKEN_OUT = {
    "a sleep of the server counts as death": (
        "  after_a_sleep()\n  for",
        "  for",
        "a_sleep_of_the_server_counts_nobody_as_dead",
    ),
    "the revision is written first": (
        "  return 'OK'\nend\n\n-- The last",
        "  redis.call('HSET', key(c), 'rev', text(rev + 1), 'last', wid)\n  return 'OK'\nend\n\n-- The last",
        "a_write_that_failed_midway_is_not_told_done",
    ),
    "control is shed with the rest": (
        "if kind == 'control' then\n  is_full",
        "if false then\n  is_full",
        "stop_gets_in_where_much_waits",
    ),
    "a cap holds only when a conversation becomes ready": (
        "local c = under_cap(ch) and redis.call",
        "local c = redis.call",
        "a_lowered_cap_is_kept_at_the_next_grant",
    ),
    "the sweep puts back only who has an inbox": (
        "      put(c, ch)\n    end\n  end\nend\n\nlocal function grant",
        "      if redis.call('EXISTS', key(c, 'inbox')) == 1 then put(c, ch) end\n    end\n  end\nend\n\nlocal function grant",
        "a_holder_that_sleeps_after_take_strands_nobody",
    ),
    "take without the turn": ("set_turn(c, ARGV[6])", "", "what_was_taken_is_an_open_turn"),
    "unsent rows are not looked at": (
        "if redis.call('HEXISTS', key(c), 'turn') == 1 or unsent(c) then",
        "if false then",
        "an_unsent_row_keeps_the_conversation_awake",
    ),
    "the fence is not checked": ("if h[1] ~= token then", "if false then", "a_zombie_writes_nothing"),
    "the fence is a counter": (
        ", us)\n      redis.call('SET'",
        ", 0)\n      redis.call('SET'",
        "a_fence_is_never_given_twice",
    ),
    "the beginning is not kept": (
        "redis.call('HSET', key(c), 'begin', ARGV[8])",
        "",
        "what_no_longer_counts_is_not_read",
    ),
    "no revision": ("if at ~= rev then", "if false then", "nobody_writes_on_top_of_a_hole"),
    "no write id": ("if at == rev + 1 and h[3] == wid then", "if false then", "a_repeated_write_counts_once"),
    "settle releases without a look": ("if has_work(c) then", "if false then", "settle_sees_who_came_last"),
    "park does not look at control": (
        "(redis.call('LLEN', key(c, 'control')) > tonumber(ARGV[10]) or seq",
        "(seq",
        "park_sees_a_press",
    ),
    "park does not look at newcomers": ("seq > saw", "false", "park_sees_a_newcomer"),
    "dedupe is written before the limits are looked at": (
        "local is_full\n",
        "for i = 9, #ARGV do redis.call('ZADD', seen, text(now), ARGV[i]) end\nlocal is_full\n",
        "a_refused_message_is_no_duplicate_later",
    ),
    "no dedupe": (
        "if when and tonumber(when) > now - S.dedupe_ms then",
        "if false then",
        "a_known_message_does_nothing",
    ),
    "the bell's flag does not expire": ("'NX', 'PX', S.bell_ms", "'NX'", "a_bell_that_nobody_answers_is_rung_again"),
    "an answered bell keeps its flag": (
        "redis.call('DEL', P .. 'bell')",
        "",
        "whoever_comes_after_an_answered_bell_rings",
    ),
    "no ring for the rest": ("ring = ring_due()", "ring = 0", "a_claim_rings_for_the_rest"),
    "the loud channel stays in front": (
        "redis.call('ZADD', P .. 'channels', text(us + #grants), ch)",
        "redis.call('ZADD', P .. 'channels', text(0), ch)",
        "a_quiet_channel_is_served_second",
    ),
    "a sent row can be sent again": (
        "== 'sent' then\n  return 'SENT'",
        "== 'never' then\n  return 'SENT'",
        "a_sent_row_is_not_sent_again",
    ),
    "a finished step keeps the tries": (
        "redis.call('HDEL', key(c), 'tries') -- a finished",
        "-- a finished",
        "a_finished_step_clears_the_tries",
    ),
    "a death of what waits is counted": (
        "if not h[2] then",
        "if true then",
        "who_waits_until_nothing_is_beside_it_is_not_to_blame",
    ),
    "a death of what has begun with nothing beside it is not counted": (
        "  redis.call('HDEL', key(c), 'waits')\nend",
        "end",
        "who_waits_until_nothing_is_beside_it_is_not_to_blame",
    ),
    "several go on with nothing beside them": (
        "then\n  return 'WAIT'",
        "and false then\n  return 'WAIT'",
        "one_at_a_time_has_nothing_beside_it",
    ),
    "whoever went on with nothing beside it keeps others from it": (
        "other ~= c and redis.call('HGET', key(other), 'token') == its then",
        "other ~= c then",
        "one_at_a_time_has_nothing_beside_it",
    ),
    "the inbox is in order of arrival": (
        "math.min(math.max(at, now - 5000), now)",
        "now",
        "events_that_wait_together_are_in_platform_order",
    ),
}


@pytest.mark.parametrize("guard", TAKEN_OUT)
async def test_without_the_guard_a_scenario_ends_badly(
    guard: str, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, play = TAKEN_OUT[guard]
    as_it_is = mailbox.script
    assert any(
        old in as_it_is(name).text for name in ("accept", "claim", "take", "append", "mark", "settle", "park", "sole")
    )

    def without(name: str) -> Script:
        return Script(name, as_it_is(name).text.replace(old, new))

    monkeypatch.setattr(mailbox, "script", without)
    monkeypatch.setattr(scenarios, "script", without)
    world = World(redis_url, layout, patience_s=0.3)
    failed = False
    try:
        await scenarios.SCENARIOS[play](world)
        await world.check()
    except (AssertionError, Lost):
        failed = True
    finally:
        await world.close()
    assert failed, f"{play} ends well without it"
