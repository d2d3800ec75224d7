"""`deskmate skills`: what there is, what stands in it, what is wrong with it, which of it a model would load, and whether
its programs do what their examples say.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from config.checks import nearest
from config.loading import Loaded
from config.profiles import DEFAULT, Profile
from config.settings import environment
from gateway.acts.skill_table import behind, count, everything, lay_out, row
from gateway.cli import ENGLISH, Stop, channel_option, examples, for_example, pass_loaded, pass_readable
from gateway.rights.access import Here
from gateway.rights.places import under
from gateway.text.columns import padded, widths
from skills import contents, descent, document, lint, visible
from skills.contents import Changed
from skills.findings import Finding
from skills.folders import Fault, Root, Skill, read_file
from skills.library import Catalogue, Library, SkillNotFound, roots, scan
from skills.needs import unmet
from skills.programs import Grant, Programs

WIDE: Final = 160
"""Columns where nothing is known of the terminal, as in a pipe."""


IN_FORCE: Final = {
    **dict.fromkeys(("on", "off", "trust", "add", "remove", "reload", "anew"), "gateway.cli.acts"),
    **dict.fromkeys(("notes", "approve", "reject"), "gateway.cli.notes"),
    "uses": "gateway.cli.uses",
}
"""What is done to skills in force and their notes, or was with them, in Redis, and the modules that do it."""
ALSO: Final = dict.fromkeys(("revert", "expire", "promote"), "gateway.cli.notes")
"""What is told below `notes`, and is there without it too."""


_EXAMPLES: Final = """\b
Examples:
  deskmate skills list --channel slack-main/C0123      what is in force there, and why the rest is not
  deskmate skills off web-access --everywhere
  deskmate skills add checklist.zip --channel slack-main/C0123
  deskmate skills show checklist --channel slack-main/C0123
  deskmate skills trust checklist 3fa91c --channel slack-main/C0123"""


class _Skills(click.Group):
    """Reaches for Redis only in commands that need it: `lint` runs where none is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *IN_FORCE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = (IN_FORCE | ALSO).get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command


def _in_force() -> Any:
    return importlib.import_module("gateway.cli.acts")


@click.group(cls=_Skills, epilog=_EXAMPLES)
def skills() -> None:
    """List, show, check, try and test skills; switch, trust, add and remove them.

    What is switched, trusted or added holds for one channel or everywhere, and is kept in Redis: all gateways and workers
    go by it within two seconds. A channel is named CONNECTION/CHANNEL, as the last lines of `/skill list` in it say.
    """


profile_option = click.option("--profile", "profile_name", default=DEFAULT, show_default=True, help="For whom.")


@skills.command(
    "list", epilog=for_example("skills list", "skills list --profile team", "skills list --channel slack-main/C0123")
)
@click.option("--width", type=click.IntRange(1, 1_000), help="Columns. [default: as the terminal]")
@profile_option
@channel_option
@pass_readable
def list_(loaded: Loaded, width: int | None, profile_name: str, channel: str | None) -> None:
    """List all skills, and why some are not in force.

    With --channel, what is in force there now, as Redis has it: switches, trust and added bundles too. Otherwise what the
    folders on this machine hold.
    """
    columns = width or shutil.get_terminal_size((WIDE, 24)).columns
    here, harmful = _in_force().here(loaded, channel) if channel else (_under(loaded, profile_name), ())
    rows = [row(here, one, ENGLISH, harmful) for one in everything(here, unlisted=True)]
    for piece in lay_out(rows, columns) if rows else ():
        click.echo(piece)
    for line in (*behind(here.library.shadowed, ENGLISH), *here.library.warnings):
        click.echo(line)
    place = f"{here.room} (profile {here.profile.name})" if channel else f"the profile {profile_name}"
    click.echo(f"In {place}: {count(here, unlisted=True).told(ENGLISH)}.")
    if not channel:
        click.echo("What was switched, trusted or added is seen with --channel CONNECTION/CHANNEL.", err=True)


@skills.command(epilog=for_example("skills show web-access", "skills show checklist --channel slack-main/C0123"))
@click.argument("name", metavar="ID")
@click.argument("file", metavar="[FILE]", default=document.NAME)
@channel_option
@pass_readable
def show(loaded: Loaded, name: str, file: str, channel: str | None) -> None:
    """Show a skill's exact text, hidden characters named.

    Beside it its files, and what lint says about them. With FILE, the text of that one. With --channel the one that holds there now, or a bundle that waits for trust.
    """
    if channel:
        _show_there(loaded, name, file, channel)
        return
    library = _library(loaded)
    try:
        skill = library.catalogue(["*"]).find(name)
    except SkillNotFound as error:
        if fault := next((one for one in library.faults if one.id == name), None):
            raise Stop(
                f"{name} is broken: {fault}\n\n{_text_of(fault, roots(loaded.settings.skills))}".rstrip()
            ) from None
        raise Stop(f"{error} What was added is seen with --channel CONNECTION/CHANNEL.") from None
    for line in _shown(skill, file, loaded.settings.skills.body_max_bytes):
        click.echo(line)


@skills.command("lint", epilog=for_example("skills lint my-skills", "skills lint --json my-skills/standup"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a skill, each on a line of its own.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_context
def lint_(ctx: click.Context, as_json: bool, paths: tuple[Path, ...]) -> None:
    """Check skills before anybody uses them.

    PATH is a skill's folder, its SKILL.md, a zip, or a folder of skills. No settings are needed.

    Exit code 1 if one does not load, brings a program that can't be used, or shows signs of harm; 0 if there is only advice.
    """
    try:
        verdicts = lint.lint(paths)
    except FileNotFoundError as error:
        raise Stop(f"There is no {error}.", 2) from None
    except NotADirectoryError as error:
        raise Stop(f"{error} is no skill: wanted are a folder, a zip, or a {document.NAME}.", 2) from None
    for verdict in verdicts:
        if as_json:
            click.echo(json.dumps(verdict.as_json(), ensure_ascii=False))
        else:
            for line in _told(verdict):
                click.echo(line)
    if not as_json:
        advice = sum(len(verdict.findings) for verdict in verdicts if verdict.loads)
        loading = sum(one.loads for one in verdicts)
        click.echo(
            f"{_counted(len(verdicts), 'skill')}, of which {loading} can be loaded: {_counted(advice, 'finding')}."
        )
    if not all(one.is_sound for one in verdicts):
        ctx.exit(1)


@skills.command(
    epilog=for_example("skills probe 'who is blocked today?'", "skills probe --file sentences.txt --profile team")
)
@click.argument("text", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Sentences, one a line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a sentence.")
@profile_option
@pass_loaded
def probe(loaded: Loaded, text: str | None, file: Path | None, as_json: bool, profile_name: str) -> None:
    """Ask the model which skills it would load.

    A line of the file is `sentence`, or `sentence => id, id` with the skills that are expected, `=> -` for none. Lines
    that begin with # are left out. With expectations, precision and recall are counted over all of them.

    Exit code 0 also where expectations are missed; 1 if the model gives no answer, 2 if there is nothing to ask.
    """
    if (text is None) == (file is None):
        raise click.UsageError("Give either a sentence or --file.")
    lines = [text] if text is not None else file.read_text("utf-8-sig").splitlines() if file else []
    # By name: nothing else of the gateway loads the model's SDK.
    probing: Any = importlib.import_module("workers.prompt.probe")
    failure: type[Exception] = importlib.import_module("workers.models").ModelError
    library, profile = _library(loaded), _profile(loaded, profile_name)
    try:
        cases = probing.read_cases(lines, library.catalogue(profile.skills))
        results = asyncio.run(probing.probe(loaded.settings, profile, library.catalogue(profile.skills), cases))
    except (LookupError, ValueError) as error:
        raise Stop(str(error), 2) from None
    except failure as error:
        raise Stop(f"The model gave no answer: {error}") from None
    if loaded.settings.model.provider == "rehearsal":
        click.echo("The rehearsal is no model: this tells nothing of what one would load (model.provider).", err=True)
    for result in results:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False) if as_json else str(result))
    if score := probing.score(results):
        click.echo(json.dumps(score.as_json()) if as_json else str(score))


@skills.command(
    epilog=for_example(
        "skills test", "skills test daily-report --profile team", "skills test checklist --channel slack-main/C0123"
    )
)
@click.argument("name", metavar="[ID]", required=False)
@click.option("--profile", "profile_name", default=DEFAULT, show_default=True, help="Whose time zone and variables.")
@channel_option
@pass_loaded
def test(loaded: Loaded, name: str | None, profile_name: str, channel: str | None) -> None:
    """Run the examples of skills that are programs.

    Says what came where something else was expected. Without ID, those of all. Exit code 1 if one fails. With --channel
    those of skills in force there, as its profile has it: nothing runs of a bundle that waits for trust.
    """
    if channel:
        here, _ = _in_force().here(loaded, channel)
        catalogue, profile = here.catalogue, here.profile
    else:
        catalogue, profile = _library(loaded).catalogue(["*"]), _profile(loaded, profile_name)
    chosen = [_program(catalogue, name)] if name else [one for one in catalogue.skills if one.program]
    if channel:
        _in_force().at_hand(loaded, channel, chosen)
    programs = Programs(loaded.settings.skills, loaded.settings.data / "programs", environment(), loaded.secret_values)
    grant = Grant(ZoneInfo(profile.timezone), frozenset(profile.program_env))
    passed, failed = asyncio.run(examples.run(programs, chosen, grant))
    if name and not passed + failed:
        raise Stop(f"{chosen[0].id} has no examples: put NAME.input.json and NAME.expected.json into examples/.")
    if failed:
        raise Stop(f"{failed} of {passed + failed} examples failed.")
    click.echo(f"{passed} example{'s' if passed != 1 else ''} passed." if passed else "There are no examples.")


def _show_there(loaded: Loaded, name: str, file: str, channel: str) -> None:
    shown, beside = _in_force().shown(loaded, channel, name, file)
    skill = shown.skill
    for line in (*_shown(skill, shown.path, loaded.settings.skills.body_max_bytes), *beside):
        click.echo(line)
    if shown.waits:
        click.echo(f"It waits for trust: deskmate skills trust {skill.id} {shown.digits} --channel {channel}")
    if shown.standing.reason not in {"allowed", "untrusted"}:
        click.echo(f"It is not in force there: {shown.standing.rule}.")


def _library(loaded: Loaded) -> Library:
    try:
        return scan(roots(loaded.settings.skills))
    except NotADirectoryError as error:
        raise Stop(f"{error}.") from None


def _under(loaded: Loaded, profile_name: str) -> Here:
    """What holds under a profile, as far as the folders on this machine tell: nobody has switched or added anything."""
    return under(
        loaded,
        _profile(loaded, profile_name),
        library=_library(loaded),
        unmet=lambda skill, its: unmet(skill.head, its.program_env),
    )


def _profile(loaded: Loaded, name: str) -> Profile:
    if name not in loaded.profiles:
        there = sorted(loaded.profiles)
        close = nearest(name, there)
        raise Stop(
            f"There is no profile {name!r}; "
            + (f"did you mean {close}?" if close else f"there are: {', '.join(there)}.")
        )
    if name not in loaded.profile_sources:
        raise Stop(f"The profile {name} can't be read.")
    return loaded.profiles[name]


def _program(catalogue: Catalogue, name: str) -> Skill:
    try:
        skill = catalogue.find(name)
    except SkillNotFound as error:
        raise Stop(str(error)) from None
    if skill.program is None:
        raise Stop(f"{skill.id} is no program: {skill.no_program or 'it needs main.py and schema.json'}.")
    return skill


def _shown(skill: Skill, path: str, body_max_bytes: int) -> Iterator[str]:
    yield f"{skill.id}  ({skill.tier}, {skill.folder})"
    yield f"hash {skill.hash}"
    sizes = [(path, f"{file.size_bytes:,} bytes") for path, file in sorted(skill.files.items())]
    yield "files:" if sizes else "files: none but SKILL.md"
    room = widths(sizes)[0] if sizes else 0
    yield from (f"  {padded(path, room)}  {size}" for path, size in sizes)
    findings = list(lint.inspect(skill, body_max_bytes))
    yield "findings:" if findings else "findings: none"
    yield from _listed(findings)
    if path != document.NAME and path not in skill.files:
        raise Stop(f"{skill.id} has no file {path!r}; it has those named above.")
    yield f"{path}:"
    try:
        raw = contents.read(skill, path)
    except Changed as error:
        raise Stop(f"{skill.id}: {error}.") from None
    yield f"no text: {len(raw):,} bytes" if b"\0" in raw else visible.visible(raw.decode("utf-8", "backslashreplace"))


def _told(verdict: lint.Verdict) -> Iterator[str]:
    mark = "✗" if not verdict.loads else "!" if any(one.danger for one in verdict.findings) else "●"
    yield f"{mark} {visible.visible(verdict.id)}  {verdict.path}"
    yield from _listed(verdict.findings)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _listed(findings: Sequence[Finding]) -> list[str]:
    """Signs of harm first."""
    ordered = sorted(findings, key=lambda one: not one.danger)
    return [
        f"  {'!' if one.danger else '-'} {one.file}:{one.line}: {one.kind}: {visible.visible(one.text)}"
        for one in ordered
    ]


def _text_of(fault: Fault, roots: Sequence[Root]) -> str:
    """What stands in the file, where it lies below one of the roots and no link leads there."""
    for top in (root.path.resolve() for root in roots):
        if fault.place.is_relative_to(top):
            with suppress(OSError), descent.begun(top) as folder:
                raw = read_file(folder, fault.place.relative_to(top).as_posix()).raw
                return visible.visible(raw.decode("utf-8", "backslashreplace"))
    return ""
