from __future__ import annotations

from pathlib import Path

import pytest

from config.loading import load
from config.problems import ConfigError
from config.settings import Connection
from gateway.connections import PAGE, open_connections, platform_names, platform_settings


def test_platforms_are_the_modules_of_their_folder_but_for_the_page() -> None:
    folder = Path(__file__).parents[2] / "gateway/platforms"
    assert platform_names() == sorted({file.stem for file in folder.glob("[a-z]*.py")} - {PAGE[1]})


def test_each_platform_has_keys_that_are_checked() -> None:
    for name in platform_names():
        model = platform_settings(name)
        assert issubclass(model, Connection)
        assert model.model_config["extra"] == "forbid"


@pytest.mark.parametrize("name", ["../secrets", "os", "webchat", "__init__", "", "Slack"])
def test_a_name_that_is_no_platform_imports_nothing(name: str) -> None:
    with pytest.raises(LookupError) as caught:
        platform_settings(name)
    assert list(caught.value.args) == platform_names()


def test_the_built_in_page_is_opened_from_its_own_section(tmp_path: Path) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text("chat: {stream_interval_ms: 25}\n")
    opened = open_connections(load(settings, variables={}))
    assert list(opened) == ["web"]
    assert opened["web"].settings.model_dump()["stream_interval_ms"] == 25
    settings.write_text("chat: {enabled: false}\n")
    assert open_connections(load(settings, variables={})) == {}


@pytest.mark.parametrize("platform", ["webchat", "nowhere"])
def test_a_platform_that_is_not_there_refuses_the_start_and_names_the_others(tmp_path: Path, platform: str) -> None:
    settings = tmp_path / "deskmate.yaml"
    settings.write_text(f"connections:\n  a: {{platform: {platform}}}\n")
    for read in (
        lambda: load(settings, variables={}, platforms=platform_settings),
        lambda: open_connections(load(settings, variables={})),
    ):
        with pytest.raises(ConfigError) as caught:
            read()
        (problem,) = caught.value.problems
        assert (problem.line, problem.key) == (2, "connections.a.platform")
        assert problem.wanted == f"there are: {', '.join(platform_names())}"
