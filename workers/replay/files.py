"""Cases in files: a turn that can be played anywhere, and lies in a folder of tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from config.problems import ConfigError
from gateway.conversation.key import of_parts
from gateway.conversation.records import Record
from gateway.logs import Mask
from workers.agent.recording import masked
from workers.replay.case import Case, House, NotPossible
from workers.replay.compare import Report

VERSION: Final = 1
HEAD: Final = """\
# A turn of deskmate, as it was recorded: `deskmate replay THIS-FILE` plays it anywhere, without any model and any tool, and
# compares each request. It holds what people wrote.
"""


def write(file: Path, case: Case, house: House, mask: Mask) -> None:
    """Without secrets, and without pictures. JSON where the name ends so, else YAML. Raises `OSError`."""
    whole = {
        "deskmate_replay": VERSION,
        "conversation": case.key.parts(),
        "turn": case.turn,
        **masked(
            {
                "settings": house.settings,
                "profile": house.profile,
                "asks_for_all": house.asks_for_all,
                "tools_off": list(house.tools_off),
                "skills": house.skills,
                "approved": house.approved,
                "before": [json.loads(one.dump()) for one in case.before],
                "records": [json.loads(one.dump()) for one in case.records],
            },
            mask,
        ),
        "requests": _shared(case.requests),  # masked already
    }
    if file.suffix == ".json":
        text = json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
    else:
        text = HEAD + yaml.dump(whole, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
    file.write_text(text, encoding="utf-8")


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as lines, for those who read the file."""


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _shared(requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With one object for what is equal: YAML writes that once."""
    known: dict[str, Any] = {}

    def one(value: Any) -> Any:
        return known.setdefault(json.dumps(value, sort_keys=True), value)

    return [
        {
            **entry,
            "request": {
                **entry["request"],
                "system": one(entry["request"]["system"]),
                "tools": one(entry["request"]["tools"]),
                "messages": [one(message) for message in entry["request"]["messages"]],
            },
        }
        for entry in requests
    ]


def renewed(report: Report) -> Case:
    """The same case, with what is asked and replied now as what is right. Raises `NotPossible`."""
    case = report.case
    now = {id(one.exchange.then): one.exchange.now for one in report.requests}
    if any(one.exchange.then is None for one in report.requests):
        raise NotPossible(
            "a request is made now that was not made then, and nobody knows an answer: record the turn anew"
        )
    requests = [{**entry, "request": now[id(entry["request"])]} for entry in case.requests]
    records = [
        replace(one, data={**one.data, "text": report.reply_now}) if one.type == "reply" else one
        for one in case.records
    ]
    return replace(case, requests=tuple(one for one in requests if one["request"]), records=tuple(records))


def read(file: Path) -> Case:
    """The case, with its house. Raises `NotPossible` with what is wrong with the file."""
    try:
        whole = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)  # a safe one
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise NotPossible(f"{file} can't be read: {error}") from error
    if not isinstance(whole, Mapping) or "deskmate_replay" not in whole:
        raise NotPossible(f"{file} is no case: `deskmate replay CONVERSATION TURN --save FILE` makes one")
    if whole["deskmate_replay"] != VERSION:
        raise NotPossible(f"{file} has version {whole['deskmate_replay']}, this deskmate knows {VERSION}")
    with taken_at_its_word(file):
        return _case(whole)


@contextmanager
def taken_at_its_word(file: Path) -> Iterator[None]:
    """Whatever a file leads to that is not what it should be, which anybody may have written, as `NotPossible`."""
    try:
        yield
    except ConfigError as error:
        raise NotPossible(f"{file} has other settings or another profile than this deskmate knows: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise NotPossible(f"{file} is not whole: {type(error).__name__}: {error}") from error


def _case(whole: Mapping[str, Any]) -> Case:
    house = House(
        whole["settings"],
        whole["profile"],
        whole["skills"],
        whole["approved"],
        bool(whole["asks_for_all"]),
        [str(one) for one in whole.get("tools_off", ())],
    )
    case = Case(
        key=of_parts(whole["conversation"]),
        turn=str(whole["turn"]),
        before=_records(whole["before"]),
        records=_records(whole["records"]),
        requests=tuple(whole["requests"]),
        house=house,
    )
    if not any(record.type == "event" for record in case.opening):
        raise ValueError("records: the turn begins with no message")
    return replace(case, requests=tuple(sorted(case.requests, key=lambda entry: int(entry["at_ms"]))))


def _records(dumped: Any) -> tuple[Record, ...]:
    return tuple(Record.load(json.dumps(one)) for one in dumped)
