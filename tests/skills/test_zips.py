"""Uploaded zips: the skill in them, and clear words for those that hold none or mean harm."""

from __future__ import annotations

import random
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from skills.bundles import BrokenBundle, pack, unpack
from skills.folders import FILES_MAX, Content, skill_of
from skills.zips import ENTRIES_MAX, from_zip
from tests.skills.test_bundles import at_most
from tests.skills.test_contents import HEAD

SKILL = HEAD + b"Do it.\n"


def zipped(files: Mapping[str, bytes | zipfile.ZipInfo], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of files; a `ZipInfo` in place of bytes is an entry of its own, which holds b"x"."""
    held = BytesIO()
    with zipfile.ZipFile(held, "w", method) as made:
        for name, content in files.items():
            if isinstance(content, zipfile.ZipInfo):
                made.writestr(content, b"x")
            else:
                made.writestr(name, content)
    return held.getvalue()


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def fault(files: Mapping[str, bytes | zipfile.ZipInfo], method: int = zipfile.ZIP_DEFLATED) -> str:
    return refused(zipped(files, method))


def refused(raw: bytes, filename: str = "report.zip") -> str:
    with pytest.raises(BrokenBundle) as caught:
        from_zip(raw, filename)
    return str(caught.value)


def test_a_skill_at_the_top_has_its_name_as_id_and_one_in_a_folder_the_folders() -> None:
    files = {"SKILL.md": SKILL, "references/a.md": b"a"}
    wanted = {path: Content(raw, runs=False) for path, raw in files.items()}
    assert from_zip(zipped(files), "upload-1.zip")[:2] == ("report", wanted)
    inside = {f"报表/{path}": raw for path, raw in files.items()}
    assert from_zip(zipped({"报表/": b"", **inside}), "upload.zip")[:2] == ("报表", wanted)
    assert from_zip(zipped({f"./{path}": raw for path, raw in files.items()}), "x.zip")[:2] == ("report", wanted)
    nested = {**files, "examples/inner/SKILL.md": SKILL}
    assert set(from_zip(zipped(nested), "x.zip")[1]) == set(nested)


@pytest.mark.parametrize(
    "head", [b"---\ndescription: x\n---\n", b"---\nname: two words\ndescription: x\n---\n", b"bad"]
)
def test_a_name_that_is_no_id_gives_way_to_the_zips(head: bytes) -> None:
    assert from_zip(zipped({"SKILL.md": head}), "C:\\Ana\\pr-checklist.zip")[0] == "pr-checklist"
    assert refused(zipped({"SKILL.md": head}), "my skill (1).zip").startswith("'my skill (1)' can't be a skill's id")


def test_a_zip_and_the_bundle_of_it_are_the_same_skill() -> None:
    id_, files, _ = from_zip(
        zipped({"r/SKILL.md": SKILL, "r/run.sh": entry("r/run.sh", stat.S_IFREG | 0o755)}), "r.zip"
    )
    assert files["run.sh"] == Content(b"x", runs=True)
    first, second = (skill_of(id_, "channel", Path("/nowhere"), one) for one in (files, unpack(pack(files))))
    assert first == second


def test_what_systems_add_and_hidden_files_are_left_out() -> None:
    added = ["__MACOSX/report/._SKILL.md", "report/.DS_Store", ".git/config", "report/.env", "report/__pycache__/x.pyc"]
    _, files, _ = from_zip(zipped({"report/SKILL.md": SKILL, **dict.fromkeys(added, b"x")}), "report.zip")
    assert set(files) == {"SKILL.md"}


def test_names_are_read_as_they_were_meant() -> None:
    raw = zipped({"r/SKILL.md": SKILL, "r/财务.md": b"1", "r/cafe\u0301.md": b"2"})
    said_nothing = re.sub(rb"(PK\x03\x04..|PK\x01\x02....)\x00\x08", lambda found: found[1] + b"\0\0", raw)
    assert said_nothing != raw
    for one in (raw, said_nothing):
        assert set(from_zip(one, "r.zip")[1]) == {"SKILL.md", "财务.md", "caf\u00e9.md"}
    plain = zipped({"r/SKILL.md": SKILL, "r/caf_.md": b"2"})
    assert set(from_zip(plain.replace(b"caf_", b"caf\x82"), "r.zip")[1]) == {"SKILL.md", "caf\u00e9.md"}
    chinese = "财务".encode("gbk")
    assert from_zip(plain.replace(b"caf_", chinese), "r.zip").left_out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../up.md", "wanted are plain paths"),
        ("r/../../up.md", "wanted are plain paths"),
        ("r/./a.md", "wanted are plain paths"),
        ("../", "wanted are plain paths"),
        ("__MACOSX/../../x", "wanted are plain paths"),
        ("/etc/cron.d/x", "wanted are plain paths"),
        ("r\\a.md", "wanted are plain paths"),
        ("..\\..\\a.md", "wanted are plain paths"),
        ("C:/a.md", "beside the folder 'r/'"),
        ("r/skill.md", "counts as the same name"),
        ("r/ＳＫＩＬＬ.md", "counts as the same name"),
        ("other/SKILL.md", "beside the folder"),
        ("README.md", "beside the folder"),
        ("r/SKILL.md/x", "is a file, and a folder too"),
    ],
)
def test_names_that_lead_elsewhere_or_can_be_mistaken_are_refused(name: str, reason: str) -> None:
    assert reason in fault({"r/SKILL.md": SKILL, name: b"x"})


@pytest.mark.parametrize("name", ["C:/a.md", "a\u202eb.md", "a b.md", "a/" * 300 + "b", "a\x1bb.md"])
def test_a_file_that_may_not_be_called_so_is_no_part_and_is_told_with_nothing_hidden(name: str) -> None:
    unzipped = from_zip(zipped({"r/SKILL.md": SKILL, f"r/{name}": b"x", "r/a.md": b"y"}), "r.zip")
    assert set(unzipped.files) == {"SKILL.md", "a.md"}
    [told] = unzipped.left_out
    assert told.startswith("left out, for its name: '")
    assert told.isprintable()


def test_a_name_with_a_nul_is_refused() -> None:
    raw = zipped({"r/SKILL.md": SKILL, "r/a.md_sh": b"x"})
    assert "wanted are plain paths" in refused(raw.replace(b"a.md_sh", b"a.md\0sh"))


def test_a_zip_without_a_skill_says_what_it_has() -> None:
    assert "has no SKILL.md at its top or in its one folder; it has 'r/skill.md'" in fault({"r/skill.md": SKILL})
    assert "it has 'repo/skills/r/SKILL.md'" in fault({"repo/skills/r/SKILL.md": SKILL})
    assert fault({}) == "the zip has no SKILL.md at its top or in its one folder"


def test_links_and_devices_are_refused() -> None:
    top = {"SKILL.md": SKILL}
    assert fault({**top, "a.md": entry("a.md", stat.S_IFLNK | 0o777)}) == "'a.md' in the zip is a link"
    assert fault({**top, "a/": entry("a/", stat.S_IFLNK | 0o777)}) == "'a/' in the zip is a link"
    assert fault({**top, "a.md": entry("a.md", stat.S_IFIFO | 0o777)}) == "'a.md' in the zip is no file"


def test_what_is_in_it_twice_is_refused() -> None:
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("SKILL.md", SKILL)
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr("SKILL.md", SKILL.replace(b"Do it", b"Do that"))
    assert refused(held.getvalue()) == "'SKILL.md' is in the zip twice"


def test_encrypted_files_and_rare_methods_are_refused() -> None:
    raw = zipped({"SKILL.md": SKILL})
    at = raw.index(b"PK\x01\x02")
    encrypted = raw[: at + 8] + b"\x01" + raw[at + 9 :]
    assert refused(encrypted) == "'SKILL.md' in the zip is encrypted"
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert f"packed by method {method}" in fault({"SKILL.md": SKILL}, method)
    assert set(from_zip(zipped({"SKILL.md": SKILL}, zipfile.ZIP_STORED), "x.zip")[1]) == {"SKILL.md"}


def test_bombs_cost_no_memory() -> None:
    large = zipped({"SKILL.md": SKILL, "a": bytes(64 * 1_024 * 1_024)})
    at = large.rindex(b"PK\x01\x02") + 24
    lying = large[:at] + struct.pack("<I", 5) + large[at + 4 :]
    many = zipped({"SKILL.md": SKILL, **{f"{number}": b"" for number in range(FILES_MAX)}})
    entries = zipped({"SKILL.md": SKILL}) + b"PK\x01\x02" * ENTRIES_MAX
    huge = bytes(33 * 1_024 * 1_024)
    with at_most(4):
        assert "67,108,914 bytes, allowed are" in refused(large)
        assert "the zip can't be read" in refused(lying)
        assert "1,001 files" in refused(many)
        assert "10,001 entries" in refused(entries)
        assert "34,603,008 bytes, allowed are" in refused(huge)


def test_a_file_that_is_shorter_than_its_list_says_is_refused() -> None:
    raw = zipped({"SKILL.md": SKILL})
    at = raw.index(b"PK\x01\x02") + 24
    longer = raw[:at] + struct.pack("<I", len(SKILL) + 1) + raw[at + 4 :]
    assert refused(longer) == "'SKILL.md' in the zip does not have the size that its list says"


def test_damaged_zips_are_refused() -> None:
    """Whatever is wrong, it is told as one kind of error."""
    raw = zipped({"r/SKILL.md": SKILL, "r/财务.md": b"1" * 500, "r/run.sh": entry("r/run.sh", stat.S_IFREG | 0o755)})
    chance = random.Random(7)
    refused_count = 0
    for _ in range(1_500):
        broken = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        del broken[chance.choice([len(broken), chance.randrange(len(broken))]) :]
        try:
            from_zip(bytes(broken), "r.zip")
        except BrokenBundle:
            refused_count += 1
    assert refused_count > 500
