"""Run a command that ends when its parent does: `python -I -S leash.py PARENT_PID COMMAND ...`.

A script of its own instead of a `preexec_fn`: that runs Python between fork and exec, which may hang in a process with
threads. On Linux the kernel sends SIGTERM when the parent is gone, even after kill -9; elsewhere the command just runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it died before the line above
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - to become the command is the purpose


if __name__ == "__main__":
    main()
