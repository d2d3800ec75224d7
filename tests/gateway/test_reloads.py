"""The operator's files in the audit log."""

from __future__ import annotations

from pathlib import Path

from config.loading import load
from gateway.audit.log import read
from gateway.reloads import digests, tell
from gateway.store import Store


async def test_what_files_say_otherwise_is_one_line_whoever_sees_it(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "deskmate.yaml"
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/team.yaml").write_text("skills: []\n")
    file.write_text("model: {provider: anthropic, api_key: $KEY}\n")
    loaded = load(file, variables={"KEY": "s3cret-one"})
    await tell(loaded, store)
    assert await read(store) == [], "the first time nothing has changed"
    (tmp_path / "profiles/team.yaml").write_text("skills: [a]\n")
    (tmp_path / "profiles/more.yaml").write_text("tools: []\n")
    changed = load(file, variables={"KEY": "s3cret-one"})
    for _ in range(2):
        await tell(changed, store)
    [line] = await read(store)
    assert (line.who, line.what, line.thing) == ("operator", "settings", "profile more, profile team")
    assert line.rule == f"{tmp_path}/profiles/more.yaml, {tmp_path}/profiles/team.yaml", "where it stands"
    assert line.before != line.after
    secret = load(file, variables={"KEY": "s3cret-two"})
    assert digests(secret) == digests(changed), "of a secret nothing is told, not even a hash"


async def test_each_change_names_the_file_in_which_it_was_made(store: Store, tmp_path: Path) -> None:
    file, team = tmp_path / "deskmate.yaml", tmp_path / "profiles/team.yaml"
    team.parent.mkdir()
    file.write_text("skills: {new_skills: on}\n")
    team.write_text("skills: []\n")
    await tell(load(file, variables={}), store)
    file.write_text("skills: {new_skills: off}\n")
    await tell(load(file, variables={}), store)
    team.unlink()
    await tell(load(file, variables={}), store)
    assert [(line.thing, line.rule) for line in await read(store)] == [
        ("settings skills", str(file)),
        ("profile team", str(team)),
    ]
