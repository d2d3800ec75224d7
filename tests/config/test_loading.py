from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Literal

import pytest

from config.loading import SHIPPED, Loaded, find, load
from config.problems import ConfigError, Problem
from config.settings import Connection, Secret

CANARY = "xoxb-canary-3141592653"


class Slackish(Connection):
    """Keys of a platform, as a platform's module has them."""

    signing_secret: Secret
    mode: Literal["events", "socket"] = "events"
    port: int = 0


def platforms(name: str) -> type[Connection]:
    if name != "slackish":
        raise LookupError("other", "slackish")
    return Slackish


def written(folder: Path, text: str) -> Path:
    file = folder / "deskmate.yaml"
    file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return file


def loaded(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> Loaded:
    return load(written(folder, text), variables=variables or {}, platforms=platforms)


def problems(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, variables)
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value)
    assert caught.value.__cause__ is None
    return {problem.key: problem for problem in caught.value.problems}


def test_the_shipped_settings_load_with_an_empty_environment() -> None:
    shipped = load(SHIPPED / "deskmate.yaml", variables={})
    assert shipped.settings.redis.url is None
    assert shipped.settings.model.provider == "rehearsal"
    assert shipped.profile_for("web", "web").tools == ["load_skill", "web_fetch", "current_time"]
    assert shipped.secret_values == set()


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        chanels: {slack: {enabled: true}}
        workers: "four"
        skills: {roots: skills}
        worker: {concurrency: four}
        channels:
          - {match: 7, profile: default}
        redis: {durability: everysecs}
        """,
    )
    assert list(found) == [
        "chanels",
        "workers",
        "skills.roots",
        "worker.concurrency",
        "channels[0].match",
        "redis.durability",
    ]
    assert [problem.line for problem in found.values()] == [1, 2, 3, 4, 6, 7]
    assert found["chanels"].nearest == "channels"
    assert found["workers"].nearest == "worker"
    assert "allowed: folder," in found["skills.roots"].wanted
    assert found["worker.concurrency"].what == "'four' is not allowed"
    assert found["worker.concurrency"].wanted == "wanted: whole number from 1 to 10000"
    assert found["channels[0].match"].wanted == "wanted: text"
    assert found["redis.durability"].nearest == "everysec"
    assert found["redis.durability"].wanted == "wanted: one of everysec, fsync"


def test_a_problem_is_one_line_with_file_line_key_and_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = problems(
        tmp_path,
        """
        # a comment
        connections:
          slack-main:
            platform: slackish
            signin_secret: $SIGNING
            signing_secret: $SIGNING
        """,
        {"SIGNING": CANARY},
    )
    assert str(found["connections.slack-main.signin_secret"]) == (
        "deskmate.yaml:5: connections.slack-main.signin_secret: unknown key; "
        "did you mean signing_secret? allowed: platform, api_base, signing_secret, mode, port"
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "the file is empty"),
        ("# nothing but a comment\n", 1, "the file is empty"),
        ("- a\n- b\n", 1, "the top level is not a mapping"),
        ("just text\n", 1, "the top level is not a mapping"),
        ("worker:\n\tconcurrency: 5\n", 2, "a tab in the indent"),
        ("worker: [1, 2\nlog: {}\n", 2, "is not YAML"),
        ("worker: {}\n---\nlog: {}\n", 2, "is not YAML"),
        ("worker: {}\nworker: {}\n", 2, "is here a second time, first on line 1"),
        ("log: &here {level: info}\nworker: *here\n", 1, "aliases (*name) are not allowed"),
        (
            "log: {level: !!python/name:os.system x}\n",
            1,
            "the tag tag:yaml.org,2002:python/name:os.system is not allowed",
        ),
        ("? [a, b]\n: 1\n", 1, "a key is a list or a mapping"),
    ],
)
def test_what_is_no_proper_yaml_is_told_with_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    file = tmp_path / "deskmate.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, variables={})
    first = caught.value.problems[0]
    assert (first.line, first.what[: len(what)]) == (line, what)


def test_a_file_that_is_missing_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load(tmp_path / "nowhere.yaml", variables={})
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load(tmp_path, variables={})
    (tmp_path / "latin.yaml").write_bytes(b"log:\n  level: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: is not UTF-8 text"):
        load(tmp_path / "latin.yaml", variables={})


def test_a_json_file_is_read_as_well(tmp_path: Path) -> None:
    text = json.dumps({"worker": {"concurrency": 7}, "channels": [{"match": "*", "profile": "default"}]}, indent=2)
    assert loaded(tmp_path, text).settings.worker.concurrency == 7


def test_words_that_yaml_1_1_would_bend_stay_as_they_are_written(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        gateway: {host: no}
        model: {headers: {x-place: localhost:80, x-time: 12:30, x-number: "0x1F"}}
        chat: {enabled: yes}
        skills: {folder: 2024-01-01}
        """,
    ).settings
    assert found.gateway.host == "no"
    assert list(found.model.headers.values()) == ["localhost:80", "12:30", "0x1F"]
    assert found.chat.enabled is True
    assert found.skills.folder == tmp_path / "2024-01-01"


@pytest.mark.parametrize("number", ["true", ".inf", ".nan", "-1", "0", "'5 s'"])
def test_what_is_no_sensible_number_is_refused(tmp_path: Path, number: str) -> None:
    assert problems(tmp_path, f"redis: {{timeout_s: {number}}}").keys() == {"redis.timeout_s"}


def test_nothing_after_a_key_means_its_default(tmp_path: Path) -> None:
    found = loaded(tmp_path, "redis:\nconnections:\nchannels:\nworker: {concurrency: }\n").settings
    assert found.worker.concurrency == 200
    assert found.connections == {}
    assert problems(tmp_path, "rediss:\nlog: {}\n").keys() == {"rediss"}


def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        f"""
        chat: {{password: {CANARY}}}
        redis: {{url: "redis://:{CANARY}@host:6379/0"}}
        model: {{headers: {{authorization: [{CANARY}]}}, base_url: "ftp://me:{CANARY}@host"}}
        worker: "redis://:{CANARY}@host"
        connections: {{a: {{platform: slackish, signing_secret: {CANARY}}}, b: {CANARY}}}
        """,
    )
    assert found["chat.password"].wanted == "wanted: text written $NAME, where NAME is an environment variable"
    assert found.keys() == {
        "chat.password",
        "redis.url",
        "model.headers.authorization",
        "model.base_url",
        "worker",
        "connections.a.signing_secret",
        "connections.b",
    }


@pytest.mark.parametrize(
    ("variables", "state"), [({}, "not set"), ({"SIGNING": ""}, "empty"), ({"SIGNING": " \n"}, "empty")]
)
def test_a_variable_without_a_value_is_told_with_its_name_file_line_and_key(
    tmp_path: Path, variables: dict[str, str], state: str
) -> None:
    text = "connections:\n  a:\n    platform: slackish\n    signing_secret: $SIGNING\n"
    found = problems(tmp_path, text, variables)["connections.a.signing_secret"]
    assert found.line == 4
    assert found.what == f"the environment variable SIGNING is {state}"


def test_a_connection_without_its_secret_is_refused(tmp_path: Path) -> None:
    found = problems(tmp_path, "connections:\n  a: {platform: slackish}\n")["connections.a.signing_secret"]
    assert (found.line, found.what, found.wanted) == (2, "missing", "wanted: text written $NAME")


def test_secrets_come_from_the_environment_and_are_known_for_masking(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        redis: {url: $STATE}
        chat: {password: $PASSWORD}
        model: {base_url: $MODEL_URL, headers: {x-key: $HEADER, x-plain: visible}}
        gateway: {port: $PORT}
        connections: {a: {platform: slackish, signing_secret: $SIGNING, port: $PORT}}
        """,
        {
            "STATE": "redis://me:pass-of-redis@host:6379/0",
            "PASSWORD": "pass-of-chat\n",
            "MODEL_URL": "https://me:pass-of-model@model.example/v1/",
            "HEADER": "secret-header",
            "SIGNING": CANARY,
            "PORT": "8123",
        },
    )
    assert found.settings.gateway.port == 8123
    assert found.settings.chat.password is not None
    assert found.settings.chat.password.get_secret_value() == "pass-of-chat"
    assert found.settings.model.base_url == "https://me:pass-of-model@model.example/v1"
    assert found.settings.model.headers == {"x-key": "secret-header", "x-plain": "visible"}
    assert found.secret_values == {
        "redis://me:pass-of-redis@host:6379/0",
        "pass-of-redis",
        "pass-of-chat",
        "pass-of-model",
        "secret-header",
        CANARY,
    }
    assert CANARY not in repr(found)
    section = found.section(("connections", "a"), Slackish)
    assert (section.signing_secret.get_secret_value(), section.port, section.mode) == (CANARY, 8123, "events")


def test_a_header_that_opens_a_door_must_be_a_variable(tmp_path: Path) -> None:
    found = problems(tmp_path, f"model:\n  headers:\n    x-plain: 1a\n    X-Api-Key: {CANARY}\n")
    assert found["model.headers.X-Api-Key"].line == 4


def test_what_a_wrong_variable_holds_is_not_shown(tmp_path: Path) -> None:
    found = problems(tmp_path, "gateway: {port: $TOKEN}\n", {"TOKEN": CANARY})["gateway.port"]
    assert found.what == "what $TOKEN holds is not allowed"
    assert problems(tmp_path, "redis: {url: $TOKEN}\n", {"TOKEN": CANARY}).keys() == {"redis.url"}


def test_redis_url_is_read_unasked_and_may_be_named_while_unset(tmp_path: Path) -> None:
    for text in ("log: {}", "redis: {url: $REDIS_URL}", "redis:\n"):
        assert loaded(tmp_path, text).settings.redis.url is None
        url = loaded(tmp_path, text, {"REDIS_URL": "unix:///tmp/a.sock"}).settings.redis.url
        assert url is not None
        assert url.get_secret_value() == "unix:///tmp/a.sock"
    assert "redis.url" in problems(tmp_path, "redis: {url: $OTHER}", {"REDIS_URL": "redis://host"})


def test_the_model_key_is_read_unasked_for_its_own_provider_only(tmp_path: Path) -> None:
    variables = {"ANTHROPIC_API_KEY": CANARY}
    asked = loaded(tmp_path, "model: {provider: anthropic, name: m}", variables).settings.model
    assert asked.api_key is not None
    assert loaded(tmp_path, "model: {provider: other}", variables).settings.model.api_key is None
    assert loaded(tmp_path, "log: {}", variables).settings.model.api_key is None


@pytest.mark.parametrize("more", ["", ", base_url: https://model.example"])
def test_a_named_model_key_that_is_unset_is_told_like_any_secret(tmp_path: Path, more: str) -> None:
    text = f"model: {{provider: anthropic, name: m, api_key: $ANTHROPIC_API_KEY{more}}}\n"
    (found,) = problems(tmp_path, text).values()
    assert (found.key, found.what) == ("model.api_key", "the environment variable ANTHROPIC_API_KEY is not set")


def test_a_model_key_that_nobody_uses_may_be_unset(tmp_path: Path) -> None:
    assert (
        loaded(tmp_path, "model: {provider: rehearsal, api_key: $ANTHROPIC_API_KEY}\n").settings.model.api_key is None
    )


def test_a_model_without_a_key_is_missing_one(tmp_path: Path) -> None:
    found = problems(tmp_path, "model: {provider: anthropic, name: m}\n")["model.api_key"]
    assert found.what == "missing"
    assert "ANTHROPIC_API_KEY" in found.wanted


def test_an_unknown_platform_is_told_with_those_that_exist(tmp_path: Path) -> None:
    found = problems(tmp_path, "connections:\n  a: {platform: slakish}\n")["connections.a.platform"]
    assert found.nearest == "slackish"
    assert found.wanted == "there are: other, slackish"


@pytest.mark.parametrize("name", ["Slack", "a_b", "-a", "a" * 64, "web", "''"])
def test_a_connection_name_that_could_mislead_is_refused(tmp_path: Path, name: str) -> None:
    text = f"connections:\n  {name}: {{platform: slackish, signing_secret: $S}}\n"
    assert problems(tmp_path, text, {"S": CANARY}).keys() == {f"connections.{name.strip(chr(39))}"}


def test_a_send_must_end_before_the_lease_does(tmp_path: Path) -> None:
    found = problems(tmp_path, "mailbox:\n  send_timeout_s: 9\n  lease_s: 9\n")["mailbox.lease_s"]
    assert (found.line, found.wanted) == (3, "wanted: more than mailbox.send_timeout_s (9)")


OIDC = "admin:\n  oidc:\n    issuer: {issuer}\n    client_id: x\n    connection: {connection}\n    claim: sub\n"
AROUND = "gateway: {public_url: https://deskmate.test}\nconnections:\n  a: {platform: slackish, signing_secret: $S}\n"


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        (OIDC.format(issuer="http://id.test", connection="a") + AROUND, "admin.oidc.issuer", "wanted: https"),
        (
            OIDC.format(issuer="https://id.test", connection="b") + AROUND,
            "admin.oidc.connection",
            "wanted: one of connections: a",
        ),
        (
            OIDC.format(issuer="https://id.test", connection="a") + AROUND.partition("\n")[2],
            "gateway.public_url",
            "wanted: the address that people's browsers see, for admin.oidc",
        ),
    ],
)
def test_an_identity_provider_is_known_and_finds_back(tmp_path: Path, text: str, key: str, wanted: str) -> None:
    found = problems(tmp_path, text, {"S": CANARY})
    assert {name: one.wanted for name, one in found.items()} == {key: wanted}


@pytest.mark.parametrize(("key", "most"), [("dedupe_s", 30 * 86_400), ("retention_s", 3_650 * 86_400)])
def test_what_is_kept_is_not_kept_for_ever(tmp_path: Path, key: str, most: int) -> None:
    assert getattr(loaded(tmp_path, f"mailbox: {{{key}: {most}}}").settings.mailbox, key) == most
    found = problems(tmp_path, f"mailbox: {{{key}: {most + 1}}}")[f"mailbox.{key}"]
    assert found.wanted.endswith(f" to {most}")


PLACES = ["localhost:80", "Wiki.intern:443", "10.0.0.7:8080", "[fd00::7]:80", "a:65535"]
NO_PLACES = ["127.0.0.1", "http://x:80", "*:80", "10.0.0.0/8:80", "a:99999", "a:0", "a:", ":80", "x:80/", "me@x:80"]
NO_PLACES += [
    "fd00::7:80",
    "[fd00:0::7]:80",
    "[::1]",
    "12:30",
    "0x7f.1:80",
    "a b:80",
    "a:-1",
    "a:080",
    "b\u00fccher.example:80",
]


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_is_one_host_and_port(tmp_path: Path, place: str) -> None:
    found = loaded(tmp_path, f"tools: {{web_fetch: {{allow_private: ['{place}']}}}}").settings
    assert found.tools.web_fetch.allow_private == [place.lower()]


@pytest.mark.parametrize("place", NO_PLACES)
def test_an_exception_that_is_not_exact_is_refused(tmp_path: Path, place: str) -> None:
    (found,) = problems(tmp_path, f"tools:\n  web_fetch:\n    allow_private:\n      - '{place}'\n").values()
    assert (found.line, found.key) == (4, "tools.web_fetch.allow_private[0]")
    assert "exactly one host and port" in found.wanted


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "localhost", "gateway.intern", "''"])
def test_a_host_to_listen_on_is_a_name_or_an_address(tmp_path: Path, host: str) -> None:
    assert loaded(tmp_path, f"gateway: {{host: '{host.strip(chr(39))}'}}").settings.gateway.host == host.strip("'")


@pytest.mark.parametrize("host", ["not a host", "http://x", "127.0.0.1:80", "[::1]", "256.1.1.1", "8080", "a..b", "*"])
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    found = problems(tmp_path, f"gateway: {{host: '{host}'}}")["gateway.host"]
    assert "such as 127.0.0.1, ::1 or 0.0.0.0" in found.wanted


def test_an_empty_path_is_no_folder(tmp_path: Path) -> None:
    assert problems(tmp_path, "data: ''\nskills: {folder: ' '}\n").keys() == {"data", "skills.folder"}


def test_the_folder_of_profiles_counts_also_where_something_else_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/quiet.yaml").write_text("thread_follow: false\n")
    text = "profiles: rules\nlog: {level: loud}\nchannels: [{match: '*', profile: quiet}]\n"
    assert problems(tmp_path, text).keys() == {"log.level"}


def test_what_a_caller_has_no_use_for_may_be_unset_or_wrong(tmp_path: Path) -> None:
    text = "connections: {a: {platform: nowhere, secret: $UNSET}}\nmodel: {provider: anthropic}\ngateway: {port: 9}\n"
    file = written(tmp_path, text)
    assert load(file, variables={}, without=("connections", "model")).settings.gateway.port == 9
    with pytest.raises(ConfigError) as caught:
        load(file, variables={}, platforms=platforms, without=("connections",))
    assert [problem.key for problem in caught.value.problems] == ["model.api_key"]


def test_paths_are_relative_to_where_they_are_written(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    text = f"data: here\nskills: {{folder: $SKILLS}}\nprofiles: {away}\n"
    settings = loaded(tmp_path, text, {"SKILLS": "there"}).settings
    assert settings.data == tmp_path / "here"
    assert settings.skills.folder == Path("there")
    assert settings.profiles == away
    assert loaded(tmp_path, "log: {}").settings.data == Path(".deskmate")


def test_the_settings_file_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find(None, {}) == SHIPPED / "deskmate.yaml"
    Path("config").mkdir()
    Path("config/deskmate.yaml").touch()
    assert find(None, {}) == Path("config/deskmate.yaml")
    Path("deskmate.yaml").touch()
    assert find(None, {}) == Path("deskmate.yaml")
    assert find(None, {"DESKMATE_CONFIG": "/etc/d.yaml"}) == Path("/etc/d.yaml")
    assert find(Path("given.yaml"), {"DESKMATE_CONFIG": "/etc/d.yaml"}) == Path("given.yaml")


def test_control_characters_in_the_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    found = problems(tmp_path, '"a\\e[31mred\\u2028b": 1\n')
    (problem,) = found.values()
    assert str(problem).isprintable()


MCP = """
    mcp:
      servers:
        chrome: {command: [node, server.js], cwd: servers, env: {PATH: /usr/bin, TOKEN: $TOKEN}}
        wiki: {url: "https://wiki.example/mcp/", headers: {Authorization: $WIKI}, tools: {search: {effect: read}}}
"""


def test_servers_are_read_and_what_variables_hold_is_secret(tmp_path: Path) -> None:
    found = loaded(tmp_path, MCP, {"TOKEN": "tok-1", "WIKI": "Bearer w"})
    chrome, wiki = found.settings.mcp.servers.values()
    assert (chrome.env, chrome.cwd) == ({"PATH": "/usr/bin", "TOKEN": "tok-1"}, tmp_path / "servers")
    assert (wiki.url, wiki.tools["search"].effect, wiki.tools["search"].reach) == (
        "https://wiki.example/mcp",
        "read",
        "free",
    )
    assert found.secret_values == {"tok-1", "Bearer w"}


@pytest.mark.parametrize(
    ("server", "key", "said"),
    [
        ("{}", "command", "missing; wanted: either a command or a url"),
        ("{command: [x], url: 'http://x'}", "command", "there are both; wanted: either a command or a url"),
        ("{command: []}", "command", "missing"),
        ("{command: [x, '']}", "command[1]", "wanted: text"),
        ("{command: [x, $TOKEN]}", "command", "everybody on the machine sees a command line"),
        ("{command: [x], headers: {A: b}}", "headers", "wanted: a server with a url, for this"),
        ("{url: 'http://x', env: {A: b}}", "env", "wanted: a server with a command, for this"),
        ("{url: 'http://x', cwd: here}", "cwd", "wanted: a server with a command, for this"),
        (f"{{command: [x], env: {{API_KEY: {CANARY}}}}}", "env.API_KEY", "a secret may not stand in the file"),
        (f"{{url: 'http://x', headers: {{Authorization: {CANARY}}}}}", "headers.Authorization", "a secret may not"),
        ("{command: [x], tools: {t: {effect: rad}}}", "tools.t.effect", "wanted: one of read, idempotent, once"),
        ("{command: [x], per: channel}", "per", "wanted: one of conversation, worker"),
    ],
)
def test_a_server_that_can_not_be_says_why(tmp_path: Path, server: str, key: str, said: str) -> None:
    found = problems(tmp_path, f"mcp: {{servers: {{twin: {server}}}}}", {"TOKEN": CANARY})
    assert said in str(found[f"mcp.servers.twin.{key}"])


@pytest.mark.parametrize("name", ["a__b", "a_", "_a", "A", "1a", "a.b", "a-_b", "x" * 40])
def test_a_servers_name_leaves_no_doubt_where_it_ends(tmp_path: Path, name: str) -> None:
    found = problems(tmp_path, f"mcp: {{servers: {{{name}: {{command: [x]}}}}}}")
    assert "the name is not allowed" in str(found[f"mcp.servers.{name}"])
