"""`make model`: every play to its end, and each guard taken out. Prints how many worlds there were."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from gateway.running.children import leashed
from gateway.running.embedded import answers, find_program, server_command, socket_path
from tests.gateway.conversation.model.actors import Play, Stage
from tests.gateway.conversation.model.cases import GUARDS, SMALL, TAKEN_OUT, WHOLE, states
from tests.gateway.conversation.model.search import Search
from tests.gateway.conversation.model.test_model import told


@contextmanager
def server() -> Iterator[str]:
    """A server of our own: its socket."""
    with tempfile.TemporaryDirectory() as folder:
        place = socket_path(Path(folder))
        place.parent.mkdir(mode=0o700, exist_ok=True)
        command = server_command(find_program(), Path(folder), place, fsync=False)
        running = subprocess.Popen(leashed(command), start_new_session=True)
        try:
            while not asyncio.run(answers(place)):
                assert running.poll() is None, "the server did not come up"
                time.sleep(0.05)
            yield str(place)
        finally:
            running.terminate()
            running.wait(10)


def main(names: list[str]) -> int:
    """Search the plays of these names, or all; 1 if one ends badly."""
    bad = 0
    total = 0
    with server() as place:
        for name in names or WHOLE:
            began = time.monotonic()
            with closing(states(place)) as made:
                found = Search(Stage(WHOLE[name], made)).run()
            total += found.worlds
            bad += bool(found.fault)
            sys.stdout.write(
                f"{found.worlds:>10,} worlds  {found.states:>7,} states of Redis  {time.monotonic() - began:>6.0f} s  "
                f"{name}{': ' + told(found) if found.fault else ''}\n"
            )
            sys.stdout.flush()
        for name, play, change, expected in _taken_out() if not names else ():
            with closing(states(place, change)) as made:
                found = Search(Stage(play, made)).run()
            is_seen = bool(found.fault) and expected in found.fault
            bad += not is_seen
            sys.stdout.write(f"{len(found.steps):>10} steps  without it: {name}: {found.fault or 'all is well'}\n")
    sys.stdout.write(f"{total:>10,} worlds, {bad} bad\n")
    return int(bad > 0)


def _taken_out() -> Iterator[tuple[str, Play, Callable[[str, str], str], str]]:
    """What it is called, what is searched, with which scripts, and what has to be found."""
    for name, guard in GUARDS.items():
        for play, found in guard.play.items():
            yield name, SMALL[play], guard.in_script, found
    for name, case in TAKEN_OUT.items():
        yield name, replace(SMALL[case.play], **case.changed), case.in_script, case.found


sys.exit(main(sys.argv[1:]))
