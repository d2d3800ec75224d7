"""Search: skills by the words of their ids, descriptions and tags, whatever the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills.folders import Root
from skills.library import Catalogue, scan
from skills.search import HITS_MAX, search
from tests.harness.cpu import cpu_within
from tests.skills.test_library import write


def catalogue(root: Path, *patterns: str) -> Catalogue:
    return scan([Root("org", root)]).catalogue(patterns or ["*"])


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write(tmp_path, "finance/invoices", description="Checks invoices of suppliers. Use it when one arrives.")
    write(
        tmp_path,
        "finance/expenses",
        description="报销和差旅费的检查办法：发票、行程单。",
        more="tags: [报销, travel]\n",
    )
    write(tmp_path, "numerals", description="Converts roman numerals into figures and back.")
    write(tmp_path, "ops/deploy", description="How a release of the shop is deployed, and rolled back.")
    write(tmp_path, "ops/日报", description="Writes the daily report of a team.", more="alias: standup-digest\n")
    write(tmp_path, "rules", description="Our policies.")
    write(tmp_path, "kr", description="매출 보고서를 작성합니다.")
    return tmp_path


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("convert these roman numerals", "numerals"),
        ("NUMERAL", "numerals"),
        ("ｎｕｍｅｒａｌ", "numerals"),
        ("deploying releases", "ops/deploy"),
        ("a supplier's invoice", "finance/invoices"),
        ("我要报销差旅", "finance/expenses"),
        ("出差发票怎么办", "finance/expenses"),
        ("写日报", "ops/日报"),
        ("报告", None),
        ("standup", "ops/日报"),
        ("보고서", "kr"),
        ("travel", "finance/expenses"),
        ("ops deploy", "ops/deploy"),
        ("which policy", "rules"),
        ("用pdf读invoice吧", "finance/invoices"),
    ],
)
def test_a_skill_is_found_by_words_of_its_id_description_and_tags(shop: Path, query: str, best: str | None) -> None:
    found = search(catalogue(shop), query).skills
    assert (found[0].id if found else None) == best


def test_a_word_that_few_have_counts_more_than_one_that_many_have(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, f"report-{number:02}", description="Writes the monthly report of a department.")
    write(tmp_path, "zinc", description="What zinc costs.")
    assert search(catalogue(tmp_path), "monthly report on zinc").skills[0].id == "zinc"


def test_an_id_counts_more_than_a_tag_and_a_tag_more_than_a_description(tmp_path: Path) -> None:
    write(tmp_path, "a", description="Speaks of badgers.")
    write(tmp_path, "b", more="tags: [badgers]\n")
    write(tmp_path, "badger")
    assert [skill.id for skill in search(catalogue(tmp_path), "badger").skills] == ["badger", "b", "a"]


def test_everyday_words_find_something_alone_and_nothing_beside_others(tmp_path: Path) -> None:
    write(tmp_path, "a", description="How to use the tool with a file.")
    write(tmp_path, "b", description="Badgers.")
    assert [skill.id for skill in search(catalogue(tmp_path), "use the tool with the badgers").skills] == ["b"]
    assert search(catalogue(tmp_path), "with a file").skills[0].id == "a"


def test_what_the_catalogue_does_not_hold_is_not_found(shop: Path) -> None:
    assert search(catalogue(shop, "ops/*"), "invoices").skills == ()


def test_at_most_twenty_come_and_the_rest_is_counted_and_equals_are_in_order(tmp_path: Path) -> None:
    for number in range(HITS_MAX + 5):
        write(tmp_path, f"badger-{number:02}")
    found = search(catalogue(tmp_path), "badger")
    assert [skill.id for skill in found.skills] == [f"badger-{number:02}" for number in range(HITS_MAX)]
    assert found.total == HITS_MAX + 5


@pytest.mark.parametrize("query", ["", " \n", "?!…", "\u200b"])
def test_a_query_without_any_word_is_refused(shop: Path, query: str) -> None:
    with pytest.raises(ValueError, match="no word"):
        search(catalogue(shop), query)


def test_a_query_of_any_length_costs_no_more_than_its_first_characters(shop: Path) -> None:
    with cpu_within(0.2):
        search(catalogue(shop), "numerals " + " ".join(f"w{number}" for number in range(100_000)))
