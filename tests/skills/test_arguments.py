"""Arguments: what is converted, what is refused, and what is told of it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from skills.arguments import Fitted, fit

SHANGHAI = ZoneInfo("Asia/Shanghai")
SCHEMA = {
    "type": "object",
    "properties": {
        "date": {"type": "string", "format": "date"},
        "include_metrics": {"type": "boolean", "default": True},
        "count": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number"},
        "kind": {"type": "string", "enum": ["short", "long"]},
        "days": {"type": "array", "items": {"type": "string", "format": "date"}},
        "maybe": {"type": ["integer", "null"]},
        "nested": {
            "type": "object",
            "properties": {"flag": {"type": "boolean", "default": False}, "n": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
    "required": ["date"],
    "additionalProperties": False,
}


def fitted(**arguments: Any) -> Fitted:
    return fit(SCHEMA, {"date": "2024-06-11", **arguments}, SHANGHAI)


def told(found: Fitted) -> list[str]:
    return [str(change) for change in found.changes if change.before]


def test_all_faults_are_named_at_once_with_what_was_wanted_and_what_came() -> None:
    found = fitted(date="前天", include_metrics="True", scope=3)
    assert set(found.faults) == {
        'date: wanted a date YYYY-MM-DD, came "前天"',
        f"scope: not known; known are {', '.join(SCHEMA['properties'])}",  # type: ignore[arg-type]
    }


def test_what_loses_nothing_is_converted_and_told() -> None:
    found = fitted(date=1_718_035_200, include_metrics="True")
    assert (found.values, found.faults) == ({"date": "2024-06-11", "include_metrics": True}, ())
    assert told(found) == ["date: 1718035200 → 2024-06-11 (Asia/Shanghai)", 'include_metrics: "True" → true']


CONVERTED: list[tuple[str, Any, Any]] = [
    ("include_metrics", "true", True),
    ("include_metrics", "False", False),
    ("count", "12", 12),
    ("count", "0", 0),
    ("count", 3.0, 3),
    ("ratio", "12", 12),
    ("ratio", "-0.5", -0.5),
    ("maybe", "-7", -7),
    ("days", ["2024-01-01", 1_718_035_200], ["2024-01-01", "2024-06-11"]),
    ("nested", {"n": "5", "flag": "true"}, {"n": 5, "flag": True}),
]


@pytest.mark.parametrize(("name", "came", "runs_with"), CONVERTED)
def test_it_is_converted(name: str, came: Any, runs_with: Any) -> None:
    found = fitted(**{name: came})
    assert found.faults == ()
    assert found.values[name] == runs_with
    assert type(found.values[name]) is type(runs_with)
    assert told(found)


REFUSED: list[tuple[str, Any]] = [
    *(
        ("date", one)
        for one in (1_718_035_200_000, 20_240_611, "2024-6-11", "2024-02-30", "1718035200", True, None, "")
    ),
    *(("count", one) for one in ("0123", 1.5, "1.0", " 12", "１２", "1e3", "+1", "-0x1", "12abc", True, -1, "9" * 19)),
    *(("include_metrics", one) for one in ("yes", "TRUE", 1, 0, "1", None)),
    *(("ratio", one) for one in ("1e400", "NaN", "0.10.1", ".5", "05.5", False)),
    *(("kind", one) for one in ("Short", 1, None)),
    *(("maybe", one) for one in ("null", "", False)),
    ("days", "2024-01-01"),
    ("nested", {"m": 1}),
]


@pytest.mark.parametrize(("name", "came"), REFUSED)
def test_it_is_refused(name: str, came: Any) -> None:
    found = fitted(**{name: came})
    assert len(found.faults) == 1
    assert found.faults[0].startswith(f"{name}")


def test_choices_and_required_fields_are_checked_after_the_conversion() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "enum": [1, 2]}, "size": {"type": "integer", "default": 4}},
        "required": ["n", "size"],
        "additionalProperties": False,
    }
    assert fit(schema, {"n": "2"}, SHANGHAI).values == {"n": 2, "size": 4}
    assert fit(schema, {"n": "3"}, SHANGHAI).faults == ("n: wanted one of 1, 2, came 3",)
    assert fit(schema, {}, SHANGHAI).faults == ("n: missing; wanted one of 1, 2",)


def test_a_default_is_filled_in_and_told_inside_objects_too() -> None:
    assert [str(change) for change in fitted(nested={"n": 1}).changes] == [
        "nested.flag: false (default)",
        "include_metrics: true (default)",
    ]


def test_the_arguments_that_came_stay_as_they_were() -> None:
    came = {"date": 1_718_035_200, "nested": {"n": "1"}, "days": [1_718_035_200]}
    before = {**came, "nested": {"n": "1"}, "days": [1_718_035_200]}
    fit(SCHEMA, came, SHANGHAI)
    assert came == before


def test_arguments_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5_000):
        inner["a"] = inner = {}
    assert fitted(nested=deep).faults


@given(some.datetimes(min_value=datetime(1974, 1, 1), max_value=datetime(9999, 1, 1)))  # noqa: DTZ001  # a day there
def test_seconds_are_the_day_that_it_was_there(moment: datetime) -> None:
    there = moment.replace(tzinfo=SHANGHAI, microsecond=0)
    assert fit(SCHEMA, {"date": int(there.timestamp())}, SHANGHAI).values["date"] == there.date().isoformat()


@given(some.integers(-(10**17), 10**17))
def test_a_whole_number_written_as_text_is_that_number(number: int) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert fit(schema, {"n": str(number)}, SHANGHAI).values == {"n": number}


@given(
    some.recursive(
        some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_whatever_comes_is_an_answer_and_no_exception(value: Any) -> None:
    found = fitted(date=value, nested=value, count=value)
    assert found.faults or isinstance(date.fromisoformat(found.values["date"]), date)
