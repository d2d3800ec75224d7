"""From files and the environment to settings and profiles, or to everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from config import salvage
from config.checks import check, nearest, secrets
from config.marks import Marks, marks
from config.problems import At, ConfigError, Problem, short
from config.profiles import Found, Profile, fits, profile_for, read_profiles
from config.settings import ENVIRONMENT_DEFAULTS, Connection, Section, Settings, environment
from config.source import Source, Variable, read

SectionT = TypeVar("SectionT", bound=Section)

PlatformSettings = Callable[[str], type[Connection]]
"""Gives the `Settings` of a platform. Raises `LookupError` with the names that exist as its arguments."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was read, right or wrong: for checks of what is named in it and lives in layers above."""

    source: Source = field(repr=False)
    filled: Mapping[str, Any] = field(repr=False)
    """The settings file's content, with its variables filled in."""
    profiles: Mapping[str, Source]
    made: Mapping[str, Profile]
    """Of these, the profiles that are right as far as this layer knows."""


Further = Callable[[Draft], Iterable[Problem]]

ROOMS_KEPT = 10_000
SHIPPED = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything the operator decided, and where it is written."""

    settings: Settings
    profiles: Mapping[str, Profile]
    source: Source = field(repr=False)
    profile_sources: Mapping[str, Source] = field(repr=False)
    secret_values: set[str] = field(repr=False)
    """All secrets that are known so far. Grows with `section`; the logs mask what is in it."""
    folders: Sequence[Path] = field(repr=False)
    """Where profiles lie, the strongest first."""
    marks: Marks = field(repr=False)
    """Of the settings file and the profiles, from before they were read."""
    again: Callable[[], Loaded] = field(repr=False, compare=False)
    """Reads the same files in the same way once more. Raises `ConfigError`."""
    _filled: Mapping[str, Any] = field(repr=False)
    mistakes: Sequence[Problem] = ()
    """What is wrong, where the caller goes on with the rest."""
    _rooms: dict[tuple[str, str], Profile] = field(default_factory=dict, repr=False, compare=False)
    """Profiles of rooms that were asked for: each event asks, and the rules may be many."""

    @property
    def path(self) -> Path:
        """The settings file."""
        return self.source.file

    def section(self, at: At, model: type[SectionT]) -> SectionT:
        """A part of the file that has an owner elsewhere, such as `("connections", "slack-main")`.

        Raises `ConfigError`.
        """
        found: Any = self._filled
        for step in at:
            if not isinstance(found, Mapping) or step not in found:
                raise ConfigError([self.source.problem(at, "missing")])
            found = found[step]
        made, problems = check(self.source, found, at, model)
        if made is None:
            raise ConfigError(problems)
        self.secret_values.update(secrets(made))
        return made

    def profile_for(self, connection: str, channel: str) -> Profile:
        """The profile of a room: of the first rule in `channels` that fits, else `default`."""
        room = (connection, channel)
        profile = self._rooms.get(room)
        if profile is None:
            if len(self._rooms) >= ROOMS_KEPT:
                self._rooms.clear()
            profile = self._rooms[room] = self.profiles[profile_for(self.settings.channels, connection, channel)]
        return profile

    def besides(self, keys: Collection[str]) -> Mapping[str, Any]:
        """What the settings file says at its top level, without some `keys`. It may hold secrets."""
        return {name: one for name, one in self._filled.items() if name not in keys}


def find(path: Path | None = None, variables: Mapping[str, str] | None = None) -> Path:
    """The settings file: as given, `$DESKMATE_CONFIG`, `deskmate.yaml` here, `config/deskmate.yaml` here, the shipped one."""
    variables = environment() if variables is None else variables
    if path is not None:
        return path
    if named := variables.get("DESKMATE_CONFIG"):
        return Path(named).expanduser()
    here = (Path("deskmate.yaml"), Path("config/deskmate.yaml"))
    return next((file for file in here if file.is_file()), SHIPPED / "deskmate.yaml")


def load(
    path: Path | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    platforms: PlatformSettings | None = None,
    further: Further | None = None,
    without: Collection[str] = (),
    vital: Collection[str] | None = None,
) -> Loaded:
    """Read settings and profiles. `variables` stands for the environment; with `platforms` connections are checked too.

    `further` adds what is wrong by what other layers know. `without` names top-level keys that the caller has no use
    for: they count as not written, so that a secret which only they need may be unset. With `vital`, the top-level keys
    that the caller can't do without, mistakes elsewhere are only told, in `Loaded.mistakes`: see `_as_far_as_possible`.
    Raises `ConfigError` with all that is wrong, not only the first.
    """
    variables = environment() if variables is None else variables
    file = find(path, variables)
    seen = marks(file, ())
    source = read(file)
    filled, unset = source.filled(variables)
    filled = {key: one for key, one in filled.items() if key not in without}
    unset = [problem for problem in unset if problem.key.partition(".")[0] not in without]
    unset = _environment_defaults(filled, unset, variables)
    settings, problems = check(source, filled, (), Settings)
    if vital is not None:
        unset = [problem for problem in unset if salvage.top(problem) in vital]
    problems = [*source.problems, *unset, *problems]
    secret_values: set[str] = set()
    if platforms is not None and isinstance(filled.get("connections"), Mapping):
        for name, written in filled["connections"].items():
            problems += _connection(source, name, written, platforms, secret_values)
    folder = _profiles_folder(source, filled)
    if folder is not None and not folder.is_dir():
        problems.append(source.problem(("profiles",), f"there is no folder {short(folder)}"))
    folders = (folder or file.absolute().parent / "profiles", SHIPPED / "profiles")
    try:
        seen = {**marks(file, folders), **seen}
    except OSError as error:
        unlisted = short(Path(error.filename or folders[0]))
        problems.append(source.problem(("profiles",), f"{unlisted} can't be listed: {error.strerror}"))
    found = read_profiles(folders)
    problems += found.problems
    problems += _rules(source, filled, found)
    if further is not None:
        problems += further(Draft(source, filled, found.sources, found.profiles))
    problems = _sorted(problems)
    if problems and vital is not None:
        settings, found = _as_far_as_possible(source, filled, found, problems, vital)
    elif problems or settings is None:
        raise ConfigError(problems)
    secret_values.update(secrets(settings))
    secret_values.update(_named({name: filled.get(name) for name in ("model", "mcp")}))
    again = partial(load, file, variables=variables, platforms=platforms, further=further, without=without, vital=vital)
    return Loaded(
        settings=settings,
        profiles=found.profiles,
        source=source,
        profile_sources=found.sources,
        secret_values=secret_values,
        folders=folders,
        marks=seen,
        again=again,
        mistakes=problems,
        _filled=filled,
    )


def _named(part: Any, *, counts: bool = False) -> Iterator[str]:
    """What variables hold that stand in headers or in an environment."""
    if isinstance(part, Variable) and counts:
        yield str(part)
    elif isinstance(part, Mapping):
        for name, inner in part.items():
            yield from _named(inner, counts=counts or name in {"headers", "env"})


def _as_far_as_possible(
    source: Source, filled: Mapping[str, Any], found: Found, problems: Sequence[Problem], vital: Collection[str]
) -> tuple[Settings, Found]:
    """Settings without what is wrong with them. Raises `ConfigError` where that is, or may be meant for, a `vital` part.

    A profile that nothing can be made of is taken for one that lists each skill and allows nothing else: who looks after
    skills must not be kept from it. It has no source.
    """
    ours = [one for one in problems if one.file == short(source.file)]
    settings, rest = check(source, salvage.without(filled, ours), (), Settings)
    if settings is None or any(salvage.top(one) in {"", *vital} or one.nearest in vital for one in ours):
        raise ConfigError([*problems, *rest])
    broken = {name: Profile(name=name, skills=["*"]) for name in found.names - found.profiles.keys()}
    sources = {name: one for name, one in found.sources.items() if name not in broken}
    return settings, replace(found, profiles={**found.profiles, **broken}, sources=sources)


def _environment_defaults(filled: dict[str, Any], unset: list[Problem], variables: Mapping[str, str]) -> list[Problem]:
    """Put in what the environment gives unasked; a file that names just that variable may do so while it is unset.

    That is forgiven only where the value can be done without: not the key of a model that is going to be asked.
    """
    for (section, key), name in ENVIRONMENT_DEFAULTS.items():
        part = filled.setdefault(section, {})
        if part is None:
            part = filled[section] = {}
        if not isinstance(part, dict):
            continue
        content = variables.get(name, "").strip()
        written = part.get(key)
        is_used = section != "model" or part.get("provider") == "anthropic"
        if isinstance(written, Variable) and written.name == name and not content:
            if section == "model" and is_used:
                continue
            del part[key]
            unset = [problem for problem in unset if problem.key != f"{section}.{key}"]
        elif written is None and content and is_used:
            part[key] = Variable(name, content)
    return unset


def _profiles_folder(source: Source, filled: Mapping[str, Any]) -> Path | None:
    """The folder that `profiles` names, also where something else is wrong with the settings."""
    made, _ = check(source, {"profiles": filled.get("profiles")}, (), Settings)
    return made.profiles if made else None


def _connection(
    source: Source, name: str, written: Any, platforms: PlatformSettings, secret_values: set[str]
) -> list[Problem]:
    at = ("connections", name)
    platform = written.get("platform") if isinstance(written, Mapping) else None
    if not isinstance(platform, str):
        return []  # what is wrong with it was said by the check of `Settings`
    try:
        model = platforms(platform)
    except LookupError as error:
        return [no_platform(source, name, platform, error)]
    made, problems = check(source, written, at, model)
    secret_values.update(secrets(made))
    return problems


def no_platform(source: Source, connection: str, platform: str, error: LookupError) -> Problem:
    """What is wrong with a connection whose platform does not exist; `error` holds the names that do."""
    known = [str(one) for one in error.args]
    at = ("connections", connection, "platform")
    wanted = f"there are: {', '.join(known)}"
    return source.problem(at, f"there is no platform {platform!r}", wanted, nearest(platform, known))


def _rules(source: Source, filled: Mapping[str, Any], found: Found) -> Iterator[Problem]:
    """What is wrong across `channels`: a rule that never fits leaves a room with a profile that nobody meant for it."""
    rules = filled.get("channels")
    connections = filled.get("connections")
    names = sorted({"web", *(connections if isinstance(connections, Mapping) else ())})
    profiles = sorted(found.names)
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        at = ("channels", index)
        profile, match = (rule.get("profile"), rule.get("match")) if isinstance(rule, Mapping) else (None, None)
        if isinstance(profile, str) and profile not in profiles:
            what, wanted = f"there is no profile {profile!r}", f"there are: {', '.join(profiles)}"
            yield source.problem((*at, "profile"), what, wanted, nearest(profile, profiles))
        if isinstance(match, str) and not any(fits(name, match.strip()) for name in names):
            what, wanted = f"{match!r} fits no connection", f"wanted: connection/channel; there are: {', '.join(names)}"
            yield source.problem((*at, "match"), what, wanted, nearest(match.partition("/")[0], names))


def _sorted(problems: list[Problem]) -> list[Problem]:
    """In the order of the files, each key's first problem only."""
    first: dict[tuple[str, str, int | None], Problem] = {}
    for problem in problems:
        first.setdefault((problem.file, problem.key, None if problem.key else problem.line), problem)
    return sorted(first.values(), key=lambda problem: (problem.file, problem.line or 0))
