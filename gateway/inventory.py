"""What settings and profiles may name: platforms, tools, models, skills; and the one check that all of it is there.

Every process and every command that looks after them loads the settings here, so that all see the same mistakes.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from config.checks import check, nearest
from config.limits import limits, unpriced
from config.loading import Draft, Loaded, load
from config.problems import Problem, short
from config.profiles import Profile
from config.settings import ModelSettings, SkillsSettings
from config.source import Source
from gateway.connections import platform_settings
from skills.library import Library, roots, scan

NEEDED: Final = {"web_search": ("tools", "web_search", "provider")}
"""Tools that do nothing without a setting."""

NOT_FOR_ALL: Final = ("connections", "channels", "model")
"""What only gateways and workers need: accounts, who may what in them, and the model. Their secrets are there."""


def load_checked(path: Path | None = None, variables: Mapping[str, str] | None = None) -> Loaded:
    """Settings and profiles for a process that serves. Raises `ConfigError` with everything that is wrong."""
    return load(path, variables=variables, platforms=platform_settings, further=unknown)


def load_for_visitor(path: Path | None = None, variables: Mapping[str, str] | None = None) -> Loaded:
    """Settings for a command that only visits what runs: where Redis, the gateway and the data folder are.

    `NOT_FOR_ALL` is neither read nor demanded, and mistakes in profiles keep nobody from it. Raises `ConfigError`.
    """
    return load(path, variables=variables, without=NOT_FOR_ALL, vital=("data", "redis", "rq", "gateway", "chat"))


def load_for_operator(path: Path | None = None, variables: Mapping[str, str] | None = None) -> Loaded:
    """Settings for a command that looks after what Redis holds, and must not be kept from it by a slip elsewhere.

    What is wrong is in `mistakes`. Raises `ConfigError` where Redis or the data folder can't be told.
    """
    return load(path, variables=variables, vital=("data", "redis"))


def installing(extra: str) -> str:
    """How to install what is not there for everybody, in the folder of a clone: deskmate comes from no registry."""
    return f".venv/bin/pip install -e '.[{extra}]'"


def tool_names() -> list[str]:
    """The tools that exist, one for each module of `workers.tools`."""
    return _modules("tools")


def model_names() -> list[str]:
    """The model providers that exist, one for each module of `workers.models`."""
    return _modules("models")


def unknown(draft: Draft) -> Iterator[Problem]:
    """Tools, skills and models that are named and not there. What no worker is installed for can't be told."""
    yield from _model(draft)
    library = None
    made, _ = check(draft.source, draft.filled.get("skills") or {}, ("skills",), SkillsSettings)
    if made is not None:
        try:
            library = scan(roots(made))
        except NotADirectoryError:
            what = f"there is no folder {short(made.folder or Path())}"
            yield draft.source.problem(("skills", "folder"), what)
    tools = tool_names()
    if tools and _servers(draft.filled) and find_spec("mcp") is None:
        what = "the package that speaks with MCP servers is not installed"
        yield draft.source.problem(("mcp", "servers"), what, f"wanted: {installing('mcp')}, or no servers")
    model, _ = check(draft.source, draft.filled.get("model") or {}, ("model",), ModelSettings)
    for name, source in draft.profiles.items():
        yield from _tools(source, tools, draft.filled)
        yield from _approvals(source, tools)
        if model and (profile := draft.made.get(name)):  # what is wrong with them was told
            yield from _prices(source, profile, model)
        for index, pattern in _texts(source.tree.get("skills")) if library else ():
            # What resembles no skill may be one that somebody will add to a channel; what resembles one is a slip.
            ids = [skill.id for skill in library.skills.values()] if library else []
            if library and "*" not in pattern and not _has(library, pattern) and (meant := nearest(pattern, ids)):
                what, wanted = f"there is no skill {pattern!r}", "wanted: the id of a skill, or a pattern with *"
                yield source.problem(("skills", index), what, wanted, meant)
        for index, pattern in _texts(source.tree.get("programs")) if library else ():
            if library and _without_program(library, pattern):
                ids = [skill.id for skill in library.skills.values() if skill.program]
                what = f"there is no program {pattern!r}"
                wanted = "wanted: the id of a skill with main.py and a usable schema.json, or a pattern with *"
                yield source.problem(("programs", index), what, wanted, nearest(pattern, ids))


def _tools(source: Source, tools: Sequence[str], filled: Mapping[str, Any]) -> Iterator[Problem]:
    for index, tool in _texts(source.tree.get("tools")) if tools else ():
        if "__" in tool:
            yield from _unknown_server(source, index, tool, _servers(filled))
        elif tool not in tools:
            wanted = f"there are: {', '.join(tools)}"
            yield source.problem(("tools", index), f"there is no tool {tool!r}", wanted, nearest(tool, tools))
        elif tool in NEEDED and not _is_set(filled, NEEDED[tool]):
            where = ".".join(NEEDED[tool])
            yield source.problem(
                ("tools", index), f"{tool} does nothing without {where}", f"wanted: {where} in the settings"
            )


def _is_set(filled: Any, at: tuple[str, ...]) -> bool:
    for key in at:
        filled = filled.get(key) if isinstance(filled, Mapping) else None
    return filled is not None


def _approvals(source: Source, tools: Sequence[str]) -> Iterator[Problem]:
    """What resembles no tool may be a skill that runs; what resembles one is a slip, and would leave a call unasked."""
    section = source.tree.get("approvals")
    if not isinstance(section, Mapping):
        return
    for key in ("ask", "free"):
        for index, name in _texts(section.get(key)):
            if "*" in name:
                what = f"{name!r} fits no tool: here they are named one by one"
                yield source.problem(("approvals", key, index), what, f"wanted: a name; there are: {', '.join(tools)}")
            if name not in tools and re.fullmatch(r"\w+", name) and (meant := nearest(name, tools)):
                wanted = f"there are: {', '.join(tools)}"
                yield source.problem(("approvals", key, index), f"there is no tool {name!r}", wanted, meant)


def _prices(source: Source, profile: Profile, settings: ModelSettings) -> Iterator[Problem]:
    """Under a budget in money a model without a price would be free: it is not asked at all, and told here."""
    limit = next((one for one in limits(profile.budget) if one.unit == "money"), None)
    asked = [
        profile.model or settings.name,
        *([profile.fallback_model] if profile.fallback_model else []),
        *profile.models,
    ]
    if limit and (names := unpriced(asked, settings.prices)):
        what = f"there is no price of {', '.join(map(repr, names))}, which this profile may use"
        yield source.problem(tuple(limit.key.split(".")), what, "wanted: model.prices of the settings has each of them")


def _servers(filled: Mapping[str, Any]) -> list[str]:
    section = filled.get("mcp")
    servers = section.get("servers") if isinstance(section, Mapping) else None
    return sorted(map(str, servers)) if isinstance(servers, Mapping) else []


def _unknown_server(source: Source, index: int, tool: str, servers: Sequence[str]) -> Iterator[Problem]:
    """Which tools a server has only it can say; but whose they are, the settings do."""
    name = tool.partition("__")[0]
    if name not in servers:
        what = f"there is no MCP server {name!r}"
        wanted = f"mcp.servers of the settings has: {', '.join(servers) or 'none'}"
        yield source.problem(("tools", index), what, wanted, nearest(name, servers))


def _without_program(library: Library, pattern: str) -> bool:
    return "*" not in pattern and not any(skill.program for skill in library.catalogue([pattern.strip()]).skills)


def _model(draft: Draft) -> Iterator[Problem]:
    section = draft.filled.get("model")
    provider = section.get("provider") if isinstance(section, Mapping) else None
    names = model_names()
    if isinstance(provider, str) and names and provider not in names:
        what, wanted = f"there is no model provider {provider!r}", f"there are: {', '.join(names)}"
        yield draft.source.problem(("model", "provider"), what, wanted, nearest(provider, names))


def _has(library: Library, pattern: str) -> bool:
    return bool(library.catalogue([pattern.strip()]).skills)


def _texts(written: Any) -> Iterator[tuple[int, str]]:
    """The entries of a list that can be looked up; what else stands there was told by the check of the profile."""
    for index, one in enumerate(written if isinstance(written, list) else ()):
        if isinstance(one, str):
            yield index, one


def _modules(package: str) -> list[str]:
    """Found by file name, nothing is imported: the gateway does not know the workers."""
    spec = find_spec("workers")
    folders = (spec and spec.submodule_search_locations) or ()
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(folder) / package) for folder in folders]))
