"""Profiles: what a channel is allowed, one YAML file each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from config.addresses import host_pattern
from config.checks import check
from config.problems import ConfigError, Problem, short
from config.settings import ENVIRONMENT_DEFAULTS, ChannelRule, Language, Pattern, Person, Section
from config.source import Source, read

PROFILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
DEFAULT: Final = "default"

ToolName = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9_-]{0,63}$")]

_STEERS: Final = re.compile(
    r"(?:LD_|DYLD_|PYTHON|GIT_|DESKMATE_|MALLOC_|GLIBC_).*|PATH|HOME|TMPDIR|TZ|LANG|LC_.*|IFS|ENV|BASH_ENV|SHELLOPTS"
    r"|NODE_OPTIONS|PERL5.*|RUBY.*|JAVA_TOOL_OPTIONS"
)
"""Variables that decide how a program starts, and what it is made of."""


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # an unknown name, a path, a folder of the database
        raise PydanticCustomError("time_zone", "not a time zone") from None
    return name


def may_be_granted(name: str) -> bool:
    """Whether a program can ever get the variable of this name."""
    ours = name in ENVIRONMENT_DEFAULTS.values()
    return not ours and not _STEERS.fullmatch(name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", name) is not None


def _variable(name: str) -> str:
    if not may_be_granted(name):
        raise PydanticCustomError("own_variable", "not a variable for programs")
    return name


Delivery = Literal["message", "tool_result", "next_turn"]
QueueMode = Literal["followup", "collect", "steer", "interrupt"]


class Queue(Section):
    """What happens to messages that arrive while a turn runs, or close to each other."""

    mode: QueueMode = "followup"
    """`followup`: a turn each. `collect`: what waits is answered together. `steer`: taken into the running turn at
    its next step. `interrupt`: like steer, and the model call that runs is dropped at once."""
    gather_ms: int = Field(0, ge=0, le=10_000)
    """Quiet time before a turn begins, so that a paste in several messages is one turn."""


class Limits(Section):
    """Where a turn ends, whatever the model wants."""

    steps: int = Field(30, ge=1, le=1_000)
    """Model calls of a turn; where it has a plan, of each step."""
    turn_s: float = Field(600.0, gt=0)
    """Time that a turn works; while all of it waits for people does not count."""
    turn_tokens: int = Field(400_000, ge=1)
    """Input and output tokens of all model calls of a turn together; what came from the provider's cache is free."""


class Amounts(Section):
    """What may be spent until it renews. What is not written has no limit."""

    tokens: int | None = Field(None, ge=1)
    """Tokens in and out of all model calls; what came from the provider's cache is free, as in `limits.turn_tokens`."""
    money: float | None = Field(None, gt=0)
    """In `model.currency`, by `model.prices`: each model that the profile may use needs one."""
    turns: int | None = Field(None, ge=1)
    """Questions that the model was asked, however many calls each took."""


class Periods(Section):
    """Days and months are those of the profile's `timezone`."""

    day: Amounts = Amounts()
    month: Amounts = Amounts()


class Budget(Section):
    """What may be spent, reserved before each model call. With nothing below it no limit holds. See [budgets.md](budgets.md)."""

    warn_at: float = Field(0.8, gt=0, le=1)
    """At this share of a limit it is told once until it renews, with the answer."""
    person: Periods = Periods()
    """Of one person: all that was spent on their behalf on the connection counts."""
    channel: Periods = Periods()
    """Of one channel, by whomever."""
    profile: Periods = Periods()
    """Of all channels together that have this profile."""


class Rate(Section):
    """How many messages are taken. What is more is not read, and that is told once a minute. `/stop` is never one too many."""

    person_per_minute: int | None = Field(None, ge=1, le=1_000)
    """Of one person, in all channels of the connection together."""
    channel_per_minute: int | None = Field(None, ge=1, le=10_000)
    """Of one channel, from all people together."""


class Plan(Section):
    """`/plan` and `/team`: a task in steps, which are carried out at the same time where they can be."""

    steps_max: int = Field(8, ge=1, le=50)
    """Steps of a plan."""
    at_once: int = Field(4, ge=1, le=50)
    """Steps that are carried out at the same time."""
    approve: bool = False
    """Whether the steps are shown first and wait for a yes. A person can ask for that: `/plan --ask TASK`."""
    reviews_max: int = Field(2, ge=0, le=10)
    """How often a team's reviewer looks at what was done, and may send it back."""


class Approvals(Section):
    """What the agent does only after a person's yes. It waits without a worker until then."""

    ask: list[Pattern] = []
    """Tools whose every call asks: their names, or ids of skills that run."""
    tainted: Literal["ask", "allow"] = "ask"
    """Once the model has read text from outside (a page, a file, a result): whether calls ask that have an effect which
    can't be repeated, or that could carry something out of the house."""
    free: list[Pattern] = []
    """Tools that don't ask for that reason."""
    own: bool = True
    """Whether people may say yes to what was asked for on their own behalf. Approvers always may."""
    turn_max: int = Field(20, ge=1, le=1_000)
    """How many yeses one turn may ask for. Who is asked again and again looks no more; further calls are refused."""
    wait_s: float = Field(3_600.0, gt=0, le=7 * 86_400)
    """How long a request stays open."""


class Context(Section):
    """Long conversations: what the model is still sent of them."""

    compact_at: float = Field(0.8, ge=0.1, le=1)
    """At this share of `model.context_tokens` old results get short, and then what was said before is put away, in short."""
    keep_messages: int = Field(3, ge=0, le=100)
    """So many of people's last messages stay whole then, with all that was done for them, where there is room."""


class Roles(Section):
    """Who may do more than talk, list and show, or less. One who is in no list is a member. See [roles.md](roles.md)."""

    admin: list[Person] = []
    """May switch skills, add, remove and reload them, take notes back, let people in and name admins of channels.
    `connection/id`, such as `slack-main/U024BE7LH`: the platform's own id, never a name; `*` stands for anything."""
    channel_admin: dict[Pattern, list[Person]] = {}
    """By channel (`connection/channel`): who may do there what an admin may, but for what holds elsewhere, too. Admins name
    others with `/role`."""
    approver: list[Person] = []
    """May say that a skill is trusted, accept or refuse notes, and say yes to calls. An admin is none unless listed here,
    too."""
    guest: list[Person] = []
    """People from outside, besides those whom the platform tells: see `guests`."""


class Profile(Section):
    """What a channel is allowed. Unknown means no."""

    name: str = ""
    """The file's name without `.yaml`; it is not written in the file."""
    language: Language | None = None
    """Of notices and pages; without it, what the platform says of the person."""
    instructions: str = "You are deskmate, an assistant in a team's chat. Answer in the language of the message."
    """What the model is told about itself and this channel."""
    model: str | None = None
    """Another model than `model.name` of the settings, at the same provider."""
    fallback_model: str | None = None
    """The model that is asked, at the same provider, while the other one is away or does not exist."""
    models: list[str] = []
    """Models at the same provider that people may choose for a conversation with `/model`, besides the own one."""
    skills: list[Pattern] = []
    """Ids of skills, or patterns such as `*` and `finance/*`."""
    tools: list[ToolName] = []
    """Names of tools: `workers/tools/<name>.py`, and `<server>__<tool>` of the settings' `mcp.servers`. Each is named by
    itself, there are no patterns."""
    programs: list[Pattern] = []
    """Which of its skills may run as programs: ids or patterns. Each is a tool of its own."""
    program_env: list[Annotated[str, AfterValidator(_variable)]] = []
    """Environment variables that a program gets if its SKILL.md asks for them in `env`."""
    order: list[Pattern] = []
    """Which skills come first in the list that the model sees, general ones before special ones: ids or patterns. The
    others follow by id."""
    delivery: Delivery = "message"
    """How the text of a skill reaches the model: as a message after the results, inside the result of `load_skill`, or
    in front of the person's next message."""
    notes: Literal["ask", "save"] = "ask"
    """What `save_skill_reference` leads to: a note that waits for an approver, or one that counts at once."""
    roles: Roles = Roles()
    guests: Literal["talk", "member", "nothing"] = "talk"
    """What people from outside may. `talk`: they are answered, without calls that change something; of commands there are
    `/help` and `/stop` for their own. `member`: as everybody. `nothing`: they are told that they are not answered."""
    direct: Literal["open", "paired", "closed"] | None = None
    """Who is answered in direct chats. `open`: everybody. `paired`: whom the files name, and who was let in with a code.
    `closed`: only whom the files name. Without it: `paired` where anybody can write to us (Telegram, Discord), else `open`."""
    timezone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """The channel's time zone: which day a moment belongs to."""
    queue: Queue = Queue()
    limits: Limits = Limits()
    budget: Budget = Budget()
    rate: Rate = Rate()
    plan: Plan = Plan()
    context: Context = Context()
    approvals: Approvals = Approvals()
    hosts: list[Annotated[str, AfterValidator(host_pattern)]] = []
    """Hosts of the web that replies may link to and tools may ask whatever was read: exact ones, or `*.` for all below
    one (`*.example.com` is not `example.com`)."""
    unclear_send: Literal["repeat", "skip"] = "repeat"
    """A send whose outcome is unknown, on a platform that can't tell: send again and say so, or leave it and say so. What
    asks somebody is sent again in either case."""
    thread_follow: bool = True
    """A thread that we answered in goes on without a mention."""
    needs_mention: bool = True
    """In groups only what is meant for us is answered: a mention, an answer to us, a command. Off: whatever people say."""
    overhear: int = Field(0, ge=0, le=100)
    """How many messages of a channel that were not meant for us the model reads with the next one that is. They are kept
    for a day."""
    other_bots: Literal["ignore", "answer"] = "ignore"
    """Whether another bot is answered like a person. Two bots can talk for ever, so a limit holds:"""
    bot_turns_per_minute: int = Field(5, ge=1, le=60)
    """of one bot in one channel; what is more is ignored."""
    greeting: str | None = None
    """The answer to a mention that says nothing; without it, one of ours."""
    retention_days: int | None = Field(None, ge=1, le=3_650)
    """A conversation in which nobody has talked for so long is forgotten, with its recordings; the channel's workspace, when
    nobody has used it for so long. At most `mailbox.retention_s`, which holds without it."""

    def kept_s(self, most_s: int) -> int:
        """How long what was said in a channel is kept without talk, in seconds; `most_s` is what the settings say."""
        return most_s if self.retention_days is None else min(most_s, self.retention_days * 86_400)


def fits(connection: str, pattern: str) -> bool:
    """Can a rule's pattern fit any room of the connection?"""
    head, slash, _ = pattern.partition("/")
    if slash:
        return fnmatchcase(connection, head)
    begin, star, _ = head.partition("*")
    return bool(star) and fnmatchcase(connection, f"{begin}*")


def profiles_of(rules: Sequence[ChannelRule], connection: str) -> list[str]:
    """The names of the profiles that rooms of a connection may have, each once."""
    found: list[str] = []
    for rule in rules:
        if fits(connection, rule.match):
            found.append(rule.profile)
            if rule.match.endswith("*") and fnmatchcase(f"{connection}/", rule.match):
                break  # no room is left for those below
    else:
        found.append(DEFAULT)
    return list(dict.fromkeys(found))


def profile_for(rules: Sequence[ChannelRule], connection: str, channel: str) -> str:
    """The name of a room's profile. `*` in a pattern fits anything, the slash too; letters are compared exactly."""
    room = f"{connection}/{channel}"
    return next((rule.profile for rule in rules if fnmatchcase(room, rule.match)), DEFAULT)


@dataclass(frozen=True, slots=True)
class Found:
    """The profiles of some folders, by name, and what is wrong with them."""

    profiles: dict[str, Profile] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    """Where each is written."""
    problems: list[Problem] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Of all files, also of those that nothing can be made of."""


def read_profiles(folders: Sequence[Path]) -> Found:
    """All profiles of the folders. Of one name, the first folder's file counts. A folder that is not there is empty."""
    found = Found()
    files: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.yaml")):
            files.setdefault(file.stem, file)
    for name, file in files.items():
        if not PROFILE_NAME.fullmatch(name):
            wanted = f"wanted: {PROFILE_NAME.pattern}"
            found.problems.append(Problem(short(file), None, "", "the file's name can't be a profile's name", wanted))
            continue
        found.names.add(name)
        try:
            source = found.sources[name] = read(file)
        except ConfigError as error:
            found.problems.extend(error.problems)
            continue
        found.problems.extend(source.problems)
        written = source.tree.get("name", name)
        if written != name:
            found.problems.append(
                source.problem(("name",), "a profile is named by its file", f"wanted: {name}, or no key")
            )
        profile, wrong = check(source, source.tree, (), Profile, given={"name": name})
        found.problems.extend(wrong)
        if profile is not None:
            found.profiles[name] = profile
    return found
