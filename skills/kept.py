"""Run a command with all that it starts, and end all of it when it ends, or when whoever holds the leash lets go.

`python -I -S kept.py HANDLE COMMAND ...`, where HANDLE is the number of an open pipe: its other end is the leash. The
kernel closes it when the holder is gone, even after kill -9. Standard input, output and error belong to the command.
A script of its own, with nothing but the standard library.
"""

import contextlib
import os
import select
import signal
import sys
import time

sys.path.append(os.path.dirname(__file__))

import inside  # type: ignore[import-not-found]  # as a script it lies beside us

ASK_S = 2.0
"""How long what is told to end may take to do so."""
NOT_FOUND = 127


def main() -> int:
    leash, command = int(sys.argv[1]), sys.argv[2:]
    bell = inside.adopt()
    child = os.fork()
    if child == 0:
        become(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):  # else nobody would see that the command has closed its own
        os.dup2(nothing, handle)
    code = watch(child, bell, leash)
    inside.end_all()
    return code


def become(command: list[str]) -> None:
    inside.prctl(inside.PARENT_DIED, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.set_inheritable(int(sys.argv[1]), False)
    try:
        os.execvp(command[0], command)  # noqa: S606 - to become the command is the purpose
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND)


def watch(child: int, bell: int, leash: int) -> int:
    """Until the command has ended: by itself, or because it was told to. Its exit code."""
    until = None
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        ready, _, _ = select.select([bell, *([leash] if until is None else [])], [], [], left)
        if leash in ready:
            until = time.monotonic() + ASK_S
            for pid in {child, *inside.descendants()}:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
        if bell in ready:
            os.read(bell, 4096)
        for pid, status in inside.reaped():
            if pid == child:
                return os.waitstatus_to_exitcode(status) % 256
        if until is not None and time.monotonic() >= until:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)  # elsewhere than on Linux nobody else is known
            return -signal.SIGTERM % 256


if __name__ == "__main__":
    os._exit(main())
