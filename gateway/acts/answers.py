"""What is told of acts: facts in words, for the chat, the pages and the command line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from gateway.acts import note_answers
from gateway.acts.cards import shown
from gateway.acts.outcomes import (
    DIGITS,
    Added,
    Listed,
    Noted,
    Outcome,
    Refusal,
    Reloaded,
    Removed,
    Shown,
    Since,
    Switched,
    Trusted,
)
from gateway.acts.skill_table import broken, edition, tier_in, version_of
from gateway.acts.standing import Standing
from gateway.audit.log import Line
from gateway.phrases import language_of, phrases, say
from gateway.rights.access import as_given
from gateway.text.quoting import fenced, few, quoted
from gateway.text.unmarked import plain
from skills.findings import Finding
from skills.folders import Fault, Skill
from skills.visible import visible

LINES_MAX: Final = 20
"""Of changes, faults or warnings; more are counted."""
FINDINGS_MAX: Final = 30
SINCE_MAX: Final = 60
"""Lines of a difference that are shown, and `SINCE_MAX_WIDTH` characters of each: the whole text stands below it."""
SINCE_MAX_WIDTH: Final = 400
SIGNS_MAX: Final = 5
"""Of harm, where something else is told first."""
TEXT_MAX: Final = 200_000
"""Characters of a file that are shown. More is told, with the way to see it."""


def told(done: Outcome, language: str) -> str:
    """Markdown: what came of an act."""
    match done:
        case Switched():
            return _switched(done, language)
        case Trusted():
            return _trusted(done, language)
        case Added():
            return _added(done, language)
        case Removed():
            return _removed(done, language)
        case Reloaded():
            return _reloaded(done, language)
        case Shown():
            return _shown(done, language)
        case Listed():
            return note_answers.listed(done, language)
        case Noted():
            return note_answers.noted(done, language)


def refused(refusal: Refusal, language: str) -> str:
    """What keeps it from being done, and what would have to name whoever may not."""
    values = refusal.values
    if refusal.kind.startswith("pair."):
        return say(refusal.kind, language)
    if refusal.kind.startswith("asked."):
        return say(refusal.kind, language, **values)
    if refusal.kind == "note_changed":
        told = say("skill.no.note_changed", language, code=quoted(values["code"]))
        return f"{told}\n\n{shown(values['note'], values['replaces'], language)}"
    if refusal.kind == "exchanged":
        facts = {name: _said(values[name]) for name in ("id", "other", "hash")}
        return f"{say('skill.no.exchanged', language, **facts)}\n\n{_shown(values['review'], language)}"
    if refusal.kind == "unreadable" and "anew" in values:
        way = say("skill.no.unreadable.anew", language, anew=quoted(values["anew"]))
        return f"{say('skill.no.unreadable', language)}\n\n{way}"
    if refusal.kind == "note_decided":
        state = say(f"skill.state.{values['state']}", language)
        return say("skill.no.note_decided", language, code=quoted(values["code"]), state=state)
    facts = {name: _said(as_given(one) if name == "command" else one) for name, one in values.items()}
    return say(f"skill.no.{refusal.kind}", language, **facts)


def decided_by(line: Line, language: str) -> str:
    """The rule of a line of the audit log, as people say it: what is one word of ours there is a sentence, of a refusal without
    its particulars, which the line has beside it.
    """
    if line.what == "approval asked":
        key = f"asked.why.{line.rule}"
    elif line.what.endswith(" refused"):
        key = line.rule if line.rule.startswith(("asked.", "pair.")) else f"skill.no.{line.rule}"
    else:
        return line.rule
    words = phrases(language_of(None, language))
    return plain(words[key].format_map(defaultdict(lambda: "…"))) if key in words else line.rule


def named_admin(who: str, room: str, language: str, *, is_one: bool, was_news: bool) -> str:
    """That somebody is an admin of one channel now, or no longer one; both names as they are shown there."""
    key = f"role.{'granted' if is_one else 'revoked'}{'' if was_news else '.was'}"
    return say(key, language, who=who, room=room)


def _switched(done: Switched, language: str) -> str:
    place = "here" if done.room else "everywhere"
    lines = [say(f"skill.{done.to}.{place}", language, id=quoted(done.id), room=quoted(done.room))]
    if done.is_gone:
        lines.append(say("skill.switch.gone", language))
    elif done.to == "on" and done.standing and done.standing.reason != "allowed":
        lines.append(say("skill.on.yet", language, why=_why(done.standing, language)))
    return "\n".join(lines)


def _trusted(done: Trusted, language: str) -> str:
    lines = [say("skill.trusted", language, id=quoted(done.id), hash=done.hash[:DIGITS], room=quoted(done.room))]
    in_force = done.standing.reason == "allowed"
    lines += [say("skill.trusted.counts", language)] if in_force else _but(done, language)
    lines += (
        [say("skill.trusted.behind", language, tier=tier_in(done.behind, language))] if done.behind and in_force else []
    )
    lines += [*_program(done.standing, done.room, language), *_signs(done.findings, language)]
    return "\n".join(lines)


def _but(done: Trusted | Added, language: str) -> list[str]:
    """What keeps it out, other than that it waits; and what an admin can say about it."""
    reason = done.standing.reason
    if reason in {"allowed", "untrusted"}:
        return []
    lines = [say("skill.but", language, why=_why(done.standing, language))]
    if done.room and reason in {"off_here", "not_on"}:
        lines.append(say("skill.but.on", language, on=quoted(f"/skill on {done.id}")))
    return lines


def _why(standing: Standing, language: str) -> str:
    return say(f"skill.why.{standing.reason}", language, rule=quoted(standing.rule))


def _program(standing: Standing, room: str, language: str) -> list[str]:
    """What a skill that runs may do; nothing for one that is text alone."""
    if standing.no_program:
        return [say("skill.program.none", language, reason=quoted(standing.no_program))]
    if (one := standing.program) is None:
        return []
    form = "everywhere" if not room else "listed" if one.is_listed else "unlisted"
    return [say(f"skill.program.{form}", language, effect=one.effect, rule=quoted(one.rule))]


def _signs(findings: Sequence[Finding], language: str) -> list[str]:
    danger = [one for one in findings if one.danger]
    if not danger:
        return []
    return [say("skill.added.signs", language, count=len(danger)), *few(map(_finding, danger), SIGNS_MAX, language)]


def _added(done: Added, language: str) -> str:
    facts = {
        "id": quoted(done.id),
        "version": quoted(done.version) if done.version else "–",
        "hash": done.hash[:DIGITS],
    }
    if not done.room:
        lines = [say("skill.added.everywhere", language, **facts)]
    elif done.is_trusted:
        lines = [say("skill.added.trusted", language, **facts, room=quoted(done.room))]
    else:
        who = ", ".join(map(quoted, done.approvers)) or say("skill.added.nobody", language)
        ask = {"show": quoted(f"/skill show {done.id}"), "trust": _trust(done.id, done.hash)}
        lines = [say("skill.added.waits", language, **facts, room=quoted(done.room))]
        lines.append(say("skill.added.ask", language, **ask, who=who))
        if done.in_force:
            other = done.in_force
            lines.append(say("skill.added.behind", language, other=edition(other, language)))
    if done.replaces:
        lines.append(say("skill.added.replaces", language, hash=done.replaces.bundle[:DIGITS]))
    if left_out := [quoted(one.text) for one in done.findings if one.kind == "left_out"]:
        lines += [say("skill.added.left_out", language), *few((f"- {one}" for one in left_out), SIGNS_MAX, language)]
    lines += [*_but(done, language), *_program(done.standing, done.room, language), *_signs(done.findings, language)]
    return "\n".join(lines)


def _removed(done: Removed, language: str) -> str:
    place = "here" if done.room else "everywhere"
    lines = [say(f"skill.removed.{place}", language, id=quoted(done.id), room=quoted(done.room))]
    if done.back:
        lines.append(say("skill.removed.back", language, other=edition(done.back, language)))
    return "\n".join(lines)


def _reloaded(done: Reloaded, language: str) -> str:
    changed = [
        say(
            f"skill.change.{one.kind}",
            language,
            id=quoted(one.id),
            tier=tier_in(one.tier, language),
            was=tier_in(one.was, language),
        )
        for one in done.changes
    ]
    lines = few(changed, LINES_MAX, language) or [say("skill.reloaded.same", language)]
    figures = {"tokens": f"{done.index.tokens:,}", "budget": f"{done.budget_tokens:,}"}
    lines.append(say("skill.reloaded.figures", language, count=done.count.told(language), **figures))
    if not done.index.is_whole:
        lines.append(say("skill.reloaded.cut", language, shown=done.index.shown, count=done.index.total))
    lines += few([_fault(one, language) for one in done.faults], LINES_MAX, language)
    lines += few([say("skill.warning", language, text=quoted(one)) for one in done.warnings], LINES_MAX, language)
    return "\n".join([say("skill.reloaded", language), *(f"- {line}" for line in lines)])


def _fault(fault: Fault, language: str) -> str:
    name = quoted(fault.id or fault.place.name)
    return say(
        "skill.fault", language, id=name, tier=tier_in(fault.tier, language), reason=quoted(broken(fault, language))
    )


def _shown(done: Shown, language: str) -> str:
    skill = done.skill
    facts = [
        say(
            "skill.show.head",
            language,
            id=quoted(skill.id),
            tier=tier_in(skill.tier, language),
            version=version_of(skill),
        )
    ]
    facts.append(say("skill.show.hash", language, hash=f"`{skill.hash[:DIGITS]}`"))
    if done.standing.reason != "allowed":
        facts.append(say("skill.show.why", language, why=_why(done.standing, language)))
    facts += _program(done.standing, done.room, language)
    facts += [_behind(one, language) for one in done.behind]
    facts += [_fault(one, language) for one in done.faults]
    if done.other:
        facts.append(say("skill.added.behind", language, other=edition(done.other, language)))
    files = [f"`{one.path}` {one.size_bytes:,}" for one in (skill.skill_md, *skill.files.values())]
    facts.append(say("skill.show.files", language, count=len(files), files=", ".join(files)))
    found = [_finding(one) for one in done.findings]
    facts += (
        [say("skill.show.findings", language, count=len(found)), *few(found, FINDINGS_MAX, language)]
        if found
        else [say("skill.show.no_findings", language)]
    )
    parts = ["\n".join(f"- {one}" for one in facts), f"`{done.path}`", fenced(_text(done, language))]
    if done.since:
        block = lines_since(done, language)
        parts[1:1] = [_since_told(done.since, language), *([fenced(block)] if block else [])]
    if done.waits:
        parts.append(say("skill.show.trust", language, trust=_trust(skill.id, skill.hash), room=quoted(done.room)))
    return "\n\n".join(parts)


def beside(done: Shown, language: str) -> list[str]:
    """What is told of a skill beside its files and findings: its program, and what is otherwise than what was trusted."""
    since = _since_told(done.since, language) if done.since else ""
    return [*_program(done.standing, done.room, language), *([since] if since else [])]


def lines_since(done: Shown, language: str) -> str:
    """The lines that are otherwise than in what was trusted last, as a difference in plain text; empty: there is none to show."""
    found = done.since.difference if done.since else None
    return "\n".join(few([line[:SINCE_MAX_WIDTH] for line in found.lines], SINCE_MAX, language)) if found else ""


def _since_told(since: Since, language: str) -> str:
    """Which files an approver has to look at, who looked at all the rest before."""
    hash_, found = since.hash[:DIGITS], since.difference
    if found is None:
        return say("skill.since.lost", language, hash=hash_)
    lines = [say("skill.since", language, hash=hash_)]
    for kind, paths in (("new", found.new), ("gone", found.gone), ("changed", found.changed)):
        if paths:
            named = ", ".join(few(map(quoted, paths), LINES_MAX, language))
            lines.append("- " + say(f"skill.since.{kind}", language, files=named))
    return "\n".join(lines)


def _text(done: Shown, language: str) -> str:
    if b"\0" in done.raw:
        return say("skill.show.binary", language, size=f"{len(done.raw):,}")
    text = visible(done.raw.decode("utf-8", "backslashreplace")).rstrip("\n")
    if len(text) <= TEXT_MAX:
        return text
    return text[:TEXT_MAX] + "\n" + say("skill.show.more", language, count=f"{len(text) - TEXT_MAX:,}")


def _behind(skill: Skill, language: str) -> str:
    return say("skill.show.behind", language, other=edition(skill, language))


def _finding(one: Finding) -> str:
    mark = "⚠ " if one.danger else ""
    return f"{mark}{quoted(f'{one.file}:{one.line}')} {one.kind}: {quoted(one.text)}"


def _trust(id_: str, hash_: str) -> str:
    return quoted(f"/skill trust {id_} {hash_[:DIGITS]}")


def _said(value: Any) -> object:
    match value:
        case str():
            return quoted(value)
        case tuple() | list():
            return ", ".join(quoted(str(one)) for one in value)
    return value
