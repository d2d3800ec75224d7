"""The operator's settings: their fields, and the one place that reads the environment.

Each class is one section of `deskmate.yaml`, each attribute one key. Suffixes carry units (`_s`, `_ms`, `_bytes`,
`_tokens`). A field of type `Secret` is written `$NAME` in the file and read from the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from config.addresses import exact_place, is_sealed, listening_host, person, redis_address, web_address
from config.source import Variable

Language = Literal["en", "zh"]

ENVIRONMENT_DEFAULTS: Final = {("redis", "url"): "REDIS_URL", ("model", "api_key"): "ANTHROPIC_API_KEY"}
"""Read when the file does not name another variable; the key only for the provider `anthropic`."""


def environment() -> Mapping[str, str]:
    """The process's environment. Everybody else is handed what they need of it."""
    return os.environ  # noqa: TID251 - the one place


def export(name: str, value: str) -> None:
    """Set a variable for a library that reads its settings from the environment when it is imported, such as RQ."""
    os.environ[name] = value  # noqa: TID251  # the one place


class Section(BaseModel):
    """A part of the settings. Unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_written_is_the_default(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None or name not in cls.model_fields}

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and info.field_name:
            annotation = cls.model_fields[info.field_name].annotation
            kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
            if bool not in kinds and (int in kinds or float in kinds):
                raise PydanticCustomError("bool_is_no_number", "true and false are no numbers")
        return value


def _only_named(value: Any, info: ValidationInfo) -> Any:
    """In a file a secret may only be named. Code, which has no context, may pass one."""
    if info.context is not None and not isinstance(value, (Variable, SecretStr)):
        raise PydanticCustomError("secret_in_file", "a secret may not stand in the file")
    return str(value) if isinstance(value, str) else value


def _beside_the_file(value: Any, info: ValidationInfo) -> Any:
    """A path in the file is relative to the file, one from the environment to the working folder."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise PydanticCustomError("empty_path", "an empty path")  # it would be the folder of the file
    path = Path(value).expanduser()
    if info.context is None or isinstance(value, Variable):
        return path
    folder: Path = info.context["folder"]
    return folder / path


_OPENS: Final = re.compile(r"auth|key|token|secret|password|cookie", re.IGNORECASE)


def _open_doors_by_name(given: Any, info: ValidationInfo) -> Any:
    """Of headers and variables, those whose names say that they open doors may only be named."""
    for name, value in given.items() if isinstance(given, Mapping) and info.context is not None else ():
        if _OPENS.search(str(name)) and isinstance(value, str) and not isinstance(value, Variable):
            raise PydanticCustomError("secret_in_file", "a secret may not stand in the file", {"key": name})
    return given


Secret = Annotated[SecretStr, BeforeValidator(_only_named)]
"""Written `$NAME` in the file. Code that builds a section itself passes a `SecretStr`."""

Named = Annotated[dict[str, str], BeforeValidator(_open_doors_by_name)]
"""Headers or variables. What is written `$NAME` is kept out of the logs."""
Folder = Annotated[Path, BeforeValidator(_beside_the_file)]
WebAddress = Annotated[str, AfterValidator(web_address)]
"""`http://` or `https://`, without the slash at the end."""
RedisAddress = Annotated[Secret, AfterValidator(redis_address)]
ListeningHost = Annotated[str, AfterValidator(listening_host)]
ExactPlace = Annotated[str, AfterValidator(exact_place)]
Person = Annotated[str, AfterValidator(person)]
"""`connection/id`, as the platform numbers people."""
Port = Annotated[int, Field(ge=1, le=65535)]
ConnectionName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
SkillId = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""As `deskmate skills list` shows it. No pattern: what is granted is granted by name."""


class RedisSettings(Section):
    """Where state lives."""

    url: RedisAddress | None = None
    """Address of a Redis 7.0+ or Valkey 7.2+. Without it an embedded server runs in the data folder."""
    durability: Literal["everysec", "fsync"] = "everysec"
    """`everysec`: a power cut may lose about a second. `fsync`: nothing, each answer waits for the disk."""
    key_prefix: str = Field("dm", pattern=r"^[A-Za-z0-9_.-]{1,32}$")
    """Begins every key of ours, so that several installations may share a server."""
    partitions: int = Field(1, ge=1, le=1024)
    """Fixed at the first start: a conversation's keys carry its partition."""
    timeout_s: float = Field(2.0, gt=0)
    """The longest that one command may take before Redis counts as away."""


class RqSettings(Section):
    """The bells: RQ's queue. It may live on a server of its own."""

    url: RedisAddress | None = None
    """By default the same server as the state's."""
    key_prefix: str = Field("dm:rq", pattern=r"^[A-Za-z0-9_.:{}-]{1,64}$")
    """Begins RQ's keys, which are not in the conversations' partitions."""
    queue: str = Field("bells", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """The queue's name, as `rq info` shows it."""


class MailboxSettings(Section):
    """Times and limits of the mailbox (see ARCHITECTURE.md)."""

    lease_s: float = Field(6.0, gt=0)
    """How long a worker owns a conversation without renewing; after a crash the next one begins this much later."""
    poll_s: float = Field(1.0, gt=0)
    """How often a worker with a free place looks for work, bell or not; four times a lease at least."""
    bell_ms: int = Field(2_000, gt=0)
    """After this an unanswered bell is rung again."""
    batch: int = Field(16, ge=1)
    """How many conversations a worker claims at a time."""
    lag_ms: int = Field(100, gt=0)
    """A worker whose loop lags more than this claims nothing new."""
    inbox_max: int = Field(100, ge=1)
    """How many messages may wait in one conversation."""
    waiting_max: int = Field(10_000, ge=1)
    """How many conversations may wait in one partition; beyond it the platform is asked to send again."""
    dedupe_s: int = Field(86_400, ge=1, le=30 * 86_400)
    """How long an event is known, so that its repetition does nothing. At least as long as platforms repeat."""
    hold_back_ms: int = Field(0, ge=0)
    """How long a new event waits before a worker may take it."""
    late_after_s: int = Field(0, ge=0)
    """A message that is older than this when it comes, by its platform's clock, is not answered as if it were new: once in a
    conversation people are told to say it again. 0: none is too old."""
    send_timeout_s: float = Field(5.0, gt=0)
    """The longest that one send to a platform may take. Less than `lease_s`."""
    send_hold_s: float = Field(3.0, gt=0)
    """A platform that asks for a longer pause than this does not hold a place meanwhile."""
    send_for_s: float = Field(600.0, gt=0)
    """How long a part is tried on a platform that is away, before it becomes a dead letter."""
    places_per_channel: int | None = Field(None, ge=1)
    """How many conversations of one channel may run at once; none: no cap."""
    retention_s: int = Field(30 * 86_400, ge=60, le=3_650 * 86_400)
    """An idle conversation is forgotten after this; a profile may say less (`retention_days`)."""

    @model_validator(mode="after")
    def _a_send_ends_before_the_lease(self) -> Self:
        if self.lease_s <= self.send_timeout_s:
            raise PydanticCustomError(
                "across",
                "wanted: more than mailbox.send_timeout_s ({limit})",
                {"key": "lease_s", "limit": f"{self.send_timeout_s:g}"},
            )
        return self


class GatewaySettings(Section):
    """The HTTP side."""

    host: ListeningHost = "127.0.0.1"
    """The address to listen on, such as `127.0.0.1`, `::1` or `0.0.0.0`; empty: all."""
    port: int = Field(8080, ge=0, le=65535)
    """The port to listen on; 0: any free one."""
    processes: int = Field(1, ge=1, le=64)
    """Processes that share the port."""
    public_url: WebAddress | None = None
    """The address that platforms see, when a proxy stands in front."""
    body_max_bytes: int = Field(1_048_576, ge=1_024)
    """A larger request is refused."""
    body_timeout_s: float = Field(5.0, gt=0)
    """A request whose body takes longer is refused."""
    accept_timeout_s: float = Field(2.0, gt=0)
    """How long a request waits for Redis before the platform is asked to send again."""
    shutdown_s: float = Field(10.0, gt=0)
    """How long requests under way may still take when the gateway is stopped."""


class ChatSettings(Section):
    """The built-in page `/chat`."""

    enabled: bool = True
    """Whether the page is there at all."""
    password: Secret | None = None
    """With a password the page may be reached from elsewhere; without one it answers only to loopback."""
    stream_interval_ms: int = Field(60, ge=10)
    """The shortest time between two updates of a growing answer."""


class OidcSettings(Section):
    """Signing in to the admin pages with an identity provider (OpenID Connect). Who may what is said by roles all the same."""

    issuer: WebAddress
    """The provider, as its discovery document names itself, such as `https://slack.com`."""
    client_id: str = Field(min_length=1)
    """What the provider knows deskmate by. Its redirect address there: `gateway.public_url` and `/admin/oidc/back`."""
    client_secret: Secret | None = None
    """Without one the client is a public one, which PKCE alone protects."""
    connection: ConnectionName
    """The connection whose people they are."""
    claim: str = Field(min_length=1)
    """Which claim holds a person's id there, such as `https://slack.com/user_id`. Never one that people may choose themselves."""
    require: dict[str, str] = {}
    """What further claims must say, such as `https://slack.com/team_id`: else people of any workspace of the provider come in."""
    scopes: list[str] = ["openid"]
    """What the provider is asked for."""
    name: str = ""
    """What people read on the link, by default the provider's host."""

    @model_validator(mode="after")
    def _nobody_reads_along(self) -> Self:
        if not is_sealed(self.issuer):
            raise PydanticCustomError("across", "wanted: https", {"key": "issuer"})
        return self


class AdminSettings(Section):
    """The admin pages `/admin` and their API. Nobody gets in without a link or a token of `deskmate admin`, or by `oidc`."""

    enabled: bool = True
    """Whether they are there at all."""
    link_s: int = Field(600, ge=30, le=86_400)
    """How long a login link can be used, once."""
    session_s: int = Field(12 * 3_600, ge=300, le=30 * 86_400)
    """How long somebody who signed in stays signed in."""
    oidc: OidcSettings | None = None
    """An identity provider with which people may sign in."""


class WorkerSettings(Section):
    """One worker process."""

    concurrency: int = Field(200, ge=1, le=10_000)
    """How many turns run at once."""
    grace_s: float = Field(20.0, ge=0)
    """How long turns may still take when the worker is stopped, before they are handed over."""
    processes: int = Field(1, ge=1, le=64)
    """How many worker processes `deskmate up` starts."""


class Price(Section):
    """What a million tokens of one model cost."""

    input: float = Field(ge=0)
    """Of what is sent to it."""
    output: float = Field(ge=0)
    """Of what it answers."""
    cache_read: float | None = Field(None, ge=0)
    """Of what is read from the provider's cache; without it, as `input`."""
    cache_write: float | None = Field(None, ge=0)
    """Of what is written to it; without it, as `input`."""

    def of(self, kind: str) -> float:
        """By the name of a field."""
        price: float | None = getattr(self, kind)
        return self.input if price is None else price


class ModelSettings(Section):
    """Which model answers. `rehearsal` is offline, scripted and no model at all."""

    provider: str = Field("rehearsal", pattern=r"^[a-z][a-z0-9_]{0,31}$")
    """`anthropic`, `rehearsal`, or another module of `workers/models`."""
    name: str = "rehearsal"
    """The model's name, as the provider has it."""
    base_url: WebAddress | None = None
    """Where the API is: any server that speaks it. By default the provider's own."""
    api_key: Secret | None = None
    """Opens the API."""
    headers: Named = {}
    """Further headers of each request. What is written `$NAME` here is kept out of the logs."""
    answer_max_tokens: int = Field(4_096, ge=1)
    """The longest answer to one call."""
    context_tokens: int = Field(200_000, ge=2_000)
    """How much the model can read at once, its answer included. A longer conversation is made smaller before."""
    connect_timeout_s: float = Field(5.0, gt=0)
    """The longest that connecting may take."""
    first_byte_timeout_s: float = Field(60.0, gt=0)
    """The longest wait for an answer to begin."""
    idle_timeout_s: float = Field(60.0, gt=0)
    """The longest pause within an answer."""
    max_retries: int = Field(6, ge=0, le=100)
    """How often one call is tried again while the model fails, within `retry_for_s`; one that was silent, once."""
    retry_for_s: float = Field(12.0, ge=0)
    """How long a turn goes on trying while the model is away, before the fallback model is asked or the person gets a
    notice. A wait that the provider itself asks for does not count."""
    tell_after_s: float = Field(15.0, gt=0)
    """A person who has waited so long for a model in trouble is told once that it takes longer."""
    breaker_failures: int = Field(6, ge=1, le=1_000)
    """After so many failures in a row, of all workers together, a model counts as away: nobody asks but one at a time."""
    breaker_window_s: float = Field(30.0, gt=0)
    """Within this time they count as a row."""
    breaker_open_s: float = Field(5.0, gt=0)
    """How long between two requests that find out whether it is back."""
    prices: dict[str, Price] = {}
    """By the name of a model, such as `{NAME: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}`: `/usage` tells
    what was spent in money as well. A name counts for those that go on behind it with `-`, too."""
    currency: str = Field("USD", pattern=r"^\S{1,8}$")
    """Of `prices`; it is only shown."""
    cache: bool = True
    """Mark each request for the provider's prompt cache (the top-level `cache_control`); off for servers that refuse it."""

    @model_validator(mode="after")
    def _the_service_wants_a_key(self) -> Self:
        if self.provider == "anthropic" and self.base_url is None and self.api_key is None:
            raise PydanticCustomError(
                "across",
                "wanted: {wanted}",
                {
                    "key": "api_key",
                    "what": "missing",
                    "wanted": "$NAME of the key (ANTHROPIC_API_KEY is read as well), or a base_url",
                },
            )
        return self


class WebFetchSettings(Section):
    """The tool `web_fetch`."""

    allow_private: list[ExactPlace] = []
    """Exact `host:port` exceptions to the rule that only public addresses are fetched."""
    ports: list[Port] = [80, 443]
    """The ports that may be fetched from."""
    timeout_s: float = Field(20.0, gt=0)
    """The longest that a page may take, redirects included."""
    max_bytes: int = Field(2_000_000, ge=1_024)
    """What is longer is cut."""
    pdf_max_bytes: int = Field(20_000_000, ge=1_024)
    """A larger PDF is not read."""
    pdf_timeout_s: float = Field(15.0, gt=0)
    """How long reading a PDF may take after it was fetched; what was read until then is what there is."""
    max_characters: int = Field(20_000, ge=100)
    """How much readable text the model gets at most."""
    max_redirects: int = Field(5, ge=0, le=20)
    """How many redirects are followed; each is checked like the first address."""


class WebSearchSettings(Section):
    """The tool `web_search`, for channels whose profile lists it."""

    provider: Literal["brave", "tavily", "searxng", "ddgs"] | None = None
    """Who searches. `brave` and `tavily` want a key; `searxng` is a server of your own; `ddgs` asks public search engines
    without a key (the extra `search`: `.venv/bin/pip install -e '.[search]'`)."""
    api_key: Secret | None = None
    """Opens the service; what stands in front of a `searxng` may want one, too (as `Authorization: Bearer`)."""
    base_url: WebAddress | None = None
    """Where the service is, such as `http://127.0.0.1:8888` for `searxng`. By default the provider's own."""
    timeout_s: float = Field(15.0, gt=0)
    """The longest that a search may take."""

    @model_validator(mode="after")
    def _each_provider_has_what_it_needs(self) -> Self:
        lacks = {
            "api_key": self.provider in {"brave", "tavily"} and self.api_key is None,
            "base_url": self.provider == "searxng" and self.base_url is None,
        }
        wanted = {"api_key": "$NAME of the key", "base_url": "the address of your SearXNG"}
        for key in (key for key, is_missing in lacks.items() if is_missing):
            told = {"key": key, "what": "missing", "wanted": f"{wanted[key]}, for provider {self.provider}"}
            raise PydanticCustomError("across", "wanted: {wanted}", told)
        return self


class WorkspaceSettings(Section):
    """The files that a channel's conversations share. They are forgotten after `mailbox.retention_s` without use, earlier
    where the profile says so (`retention_days`).
    """

    file_max_bytes: int = Field(1_048_576, ge=1_024, le=10_485_760)
    """A larger file is not kept."""
    files_max: int = Field(200, ge=1, le=1_000)
    """How many files a channel may have."""
    total_max_bytes: int = Field(10_485_760, ge=1_024, le=10_485_760)
    """How large all files of a channel may be together. They are in Redis, and go into the sandbox of `run_command`."""


class ToolsSettings(Section):
    """Settings of single tools."""

    timeout_s: float = Field(60.0, gt=0)
    """The longest that one call may take, whatever the tool."""
    result_max_characters: int = Field(30_000, ge=100)
    """What is longer is cut before the model sees it."""
    web_fetch: WebFetchSettings = WebFetchSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()


def _no_secret(given: Any) -> Any:
    """A command line can be seen by everybody on the machine."""
    if isinstance(given, list) and any(isinstance(one, Variable) for one in given):
        raise PydanticCustomError("secret_argument", "a variable may not stand in a command")
    return given


class McpToolSettings(Section):
    """What you say of one tool of a server. What the server says of itself counts for nothing here."""

    effect: Literal["read", "idempotent", "once"] = "once"
    """`read`: it changes nothing, so several may run side by side. `idempotent`: twice is like once. `once`: not run
    again when its outcome is unknown."""
    reach: Literal["inside", "address", "free"] = "free"
    """What of its arguments leaves the house. `inside`: nothing. `address`: that in `url`, and whatever other text a call
    gives. `free`: any text."""


class McpServerSettings(Section):
    """An MCP server: a `command` that is started here, or a `url`. See [mcp.md](mcp.md)."""

    command: Annotated[list[Annotated[str, StringConstraints(min_length=1)]], BeforeValidator(_no_secret)] = []
    """Program and arguments of a server that speaks over its standard input and output."""
    env: Named = {}
    """The whole environment of the command. What is written `$NAME` is kept out of the logs."""
    cwd: Folder | None = None
    """The folder that the command begins in; without it, `/`, where a command by a relative path finds nothing. `.` is the folder
    of this file."""
    url: WebAddress | None = None
    """Where a server is that speaks streamable HTTP."""
    headers: Named = {}
    """Further headers of each request to it. What is written `$NAME` is kept out of the logs."""
    per: Literal["conversation", "worker"] = "conversation"
    """Who shares one session with the server, and so what it keeps: nobody, or all conversations of a worker."""
    sessions_max: int = Field(8, ge=1, le=1_000)
    """How many sessions a worker has open at once. The one that was idle longest makes room for the next."""
    idle_s: float = Field(600.0, gt=0)
    """A session that nobody used for so long is ended."""
    start_timeout_s: float = Field(20.0, gt=0)
    """The longest that starting a session may take."""
    timeout_s: float = Field(50.0, gt=0)
    """The longest that one call may take. `tools.timeout_s` counts as well, a start included."""
    message_max_bytes: int = Field(4_194_304, ge=65_536)
    """A server that sends more at once is ended."""
    result_max_characters: int = Field(250_000, ge=1_000, le=1_000_000)
    """What is longer is cut, and the model is told how much. The model gets the first page of it and can read on."""
    tools: dict[str, McpToolSettings] = {}
    """By the tool's name, as the server has it: its effect and reach, where they are less than the most careful."""

    @model_validator(mode="after")
    def _a_command_or_an_address(self) -> Self:
        if bool(self.command) == bool(self.url):
            what, wanted = "there are both" if self.url else "missing", "wanted: either a command or a url"
            raise PydanticCustomError("across", "{wanted}", {"key": "command", "what": what, "wanted": wanted})
        if extra := [name for name in ("env", "cwd") if self.url and getattr(self, name)]:
            raise PydanticCustomError("across", "wanted: a server with a command, for this", {"key": extra[0]})
        if self.command and self.headers:
            raise PydanticCustomError("across", "wanted: a server with a url, for this", {"key": "headers"})
        return self


ServerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,30}(?:[-_][a-z0-9]{1,30}){0,2}$")]
"""Without two `_` in a row: a tool of it is called `server__tool`."""


class McpSettings(Section):
    """Tools from elsewhere, over the Model Context Protocol."""

    servers: dict[ServerName, McpServerSettings] = {}
    """By a name of your choice, which begins the names of their tools: `chrome__navigate_page`."""


class AttachmentSettings(Section):
    """Files that people attach, and what the model gets of them."""

    files_max: int = Field(10, ge=0, le=50)
    """How many files of one message are read; 0: none."""
    download_max_bytes: int = Field(10_485_760, ge=1_024)
    """A larger file is not read."""
    text_max_characters: int = Field(20_000, ge=100)
    """How much of a text the model gets. Pictures are made as small as models look at them."""


class ProgramSettings(Section):
    """Skills that run: what each run of a program may use. Which channels have them is the profiles' matter."""

    timeout_s: float = Field(30.0, gt=0)
    """The longest that a run may take. `tools.timeout_s` counts as well, waiting for a free place included."""
    cpu_s: int = Field(20, ge=1)
    """How long each of its processes may compute."""
    memory_max_bytes: int = Field(536_870_912, ge=67_108_864)
    """How much memory all its processes may use together."""
    disk_max_bytes: int = Field(67_108_864, ge=4_096)
    """How much it may write to its private folder, which is gone afterwards."""
    files_max: int = Field(2_000, ge=1)
    """How many files it may make there."""
    processes_max: int = Field(32, ge=4)
    """How many processes and threads it may have at once."""
    result_max_bytes: int = Field(262_144, ge=1_024, le=1_048_576)
    """The longest result. The model gets the first page of it and can read on."""
    at_once: int = Field(4, ge=1)
    """How many runs a worker process has under way at once; the others wait."""
    network: list[SkillId] = []
    """Ids of skills whose programs may use the network of this machine, everything that it reaches included."""
    packages: Folder | None = None
    """A folder of Python packages (`pip install --target`) that programs may import. Without it: Python's own only."""


class SkillsSettings(Section):
    """Where skills come from."""

    folder: Folder | None = None
    """The organisation's folder of skills; it takes precedence over the shipped ones."""
    new_skills: Literal["on", "off"] = "on"
    """Whether a skill that nobody has switched is on, where the profile allows it."""
    body_max_bytes: int = Field(20_480, ge=1_024)
    """A longer body is delivered in pieces."""
    budget_bytes: int = Field(65_536, ge=1_024)
    """How much of skills a conversation may hold at once."""
    index_max_tokens: int = Field(4_000, ge=200)
    """How long the list of skills in the system prompt may get."""
    unsandboxed: list[SkillId] = []
    """Ids of skills whose programs run even where there is no sandbox. They can do whatever deskmate's user can."""
    programs: ProgramSettings = ProgramSettings()


class RecordingSettings(Section):
    """Requests to the model and its answers, kept in Redis for `deskmate replay`. They hold what people wrote."""

    keep: bool = False
    """Whether they are kept at all. Secrets of these settings are masked, pictures are kept as their hash."""
    retention_s: int = Field(3 * 86_400, ge=60, le=365 * 86_400)
    """How long the recording of a turn is kept after its last request."""
    turn_max_bytes: int = Field(1_048_576, ge=1_024, le=67_108_864)
    """How large the recording of one turn may get, compressed. What does not fit is left out, and `replay` says so."""
    total_max_bytes: int = Field(268_435_456, ge=65_536)
    """How large all recordings of a partition may get together; the oldest ones make room."""


class PeopleSettings(Section):
    """Who has a say everywhere. See [roles.md](roles.md)."""

    owners: list[Person] = []
    """May do all that any role may, in each channel, and switch skills for the whole organisation. `connection/id`, such as
    `slack-main/U024BE7LH`: the platform's own id, never a name."""


class LogSettings(Section):
    """What the processes write to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is written."""
    format: Literal["text", "json"] = "text"
    """`json`: an object a line, for machines."""


class Connection(Section):
    """One account of ours on a platform. Further keys belong to the platform's own `Settings`."""

    platform: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    """A module of `gateway/platforms`."""
    api_base: WebAddress | None = None
    """Where the platform's API is; each platform has its own default."""

    @property
    def listens(self) -> bool:
        """Messages come over a connection that we hold (`Adapter.listen`), not by webhook, or not only."""
        return False


Pattern = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class ChannelRule(Section):
    """Which profile a room gets: the first rule whose pattern fits `connection/channel` wins."""

    match: Pattern
    """`*` fits anything, as in `slack-main/*`; letters are compared exactly."""
    profile: str
    """The profile's name."""


class Settings(Section):
    """All of `deskmate.yaml`."""

    data: Folder = Path(".deskmate")
    """The data folder: embedded server, its append-only file, its socket."""
    redis: RedisSettings = RedisSettings()
    rq: RqSettings = RqSettings()
    mailbox: MailboxSettings = MailboxSettings()
    gateway: GatewaySettings = GatewaySettings()
    chat: ChatSettings = ChatSettings()
    admin: AdminSettings = AdminSettings()
    worker: WorkerSettings = WorkerSettings()
    model: ModelSettings = ModelSettings()
    tools: ToolsSettings = ToolsSettings()
    mcp: McpSettings = McpSettings()
    attachments: AttachmentSettings = AttachmentSettings()
    skills: SkillsSettings = SkillsSettings()
    recordings: RecordingSettings = RecordingSettings()
    people: PeopleSettings = PeopleSettings()
    log: LogSettings = LogSettings()
    connections: dict[ConnectionName, Connection] = {}
    """Accounts on platforms, by a name of your choice, which is part of the webhook's address."""
    channels: list[ChannelRule] = []
    """Which profile a room gets."""
    profiles: Folder | None = None
    """Folder of profiles; by default `profiles/` beside the settings file, then the shipped ones."""

    @model_validator(mode="after")
    def _the_provider_finds_back(self) -> Self:
        if self.admin.oidc and not self.gateway.public_url:
            wanted = "the address that people's browsers see, for admin.oidc"
            raise PydanticCustomError(
                "across", "wanted: {wanted}", {"key": "gateway.public_url", "what": "missing", "wanted": wanted}
            )
        if self.admin.oidc and self.admin.oidc.connection not in self.connections:
            told = {"key": "admin.oidc.connection", "wanted": ", ".join(self.connections) or "a connection"}
            raise PydanticCustomError("across", "wanted: one of connections: {wanted}", told)
        return self

    @field_validator("connections", mode="after")
    @classmethod
    def _web_is_the_page(cls, given: dict[str, Connection]) -> dict[str, Connection]:
        if "web" in given:
            raise PydanticCustomError("across", "wanted: another name; web is the built-in page's own", {"key": "web"})
        return given

    @field_validator("connections", mode="before")
    @classmethod
    def _leave_further_keys_to_the_platform(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {
            name: {key: one for key, one in value.items() if key in Connection.model_fields}
            if isinstance(value, Mapping)
            else value
            for name, value in given.items()
        }
