"""What runs inside the sandbox: it starts a skill's program, watches over it, and leaves nothing behind.

Started as a script by `skills.sandbox`, which knows its exit codes; it has nothing but the standard library. One process watches
(in bubblewrap the first one of its own world, whose end is everybody's), its child runs the program. Standard input
brings one line of JSON, then stays open: when it closes, the caller has gone or wants an end. The result is one JSON
object on standard output; what the program prints goes to standard error.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from typing import Any

FAILED, MEMORY, PROCESSES, FILES, ENDED, LEFT = 10, 11, 12, 13, 14, 15
"""Exit codes: the program raised; too much of something; it ended without a result; the caller is gone."""
LOOK_EVERY_S = 0.02
LOOK_OUTSIDE_EVERY_S = 0.1  # without a list of processes of our own, looking means reading the machine's
LINE_MAX_BYTES = 16 * 1024 * 1024
SUBREAPER, DUMPABLE, PARENT_DIED = 36, 4, 1
PAGE = resource.getpagesize()


def main() -> int:
    orders = json.loads(sys.argv[1])
    line = sys.stdin.buffer.readline(LINE_MAX_BYTES)
    if not line.endswith(b"\n"):
        return LEFT
    if orders["uid"]:
        os.setgroups([])
        os.setgid(orders["uid"])
        os.setuid(orders["uid"])
    prctl(DUMPABLE, 0)  # nobody below may look into the one that watches
    bell = adopt()
    child = os.fork()
    if child == 0:
        os._exit(run(orders, json.loads(line)))
    try:
        return watch(child, bell, orders)
    finally:
        end_all()


def adopt() -> int:
    """Whoever loses its parent becomes ours. The end of a pipe that can be read when a child has ended."""
    prctl(SUBREAPER, 1)
    bell, ring = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return bell


def watch(child: int, bell: int, orders: dict[str, Any]) -> int:
    """Until the program has ended, or must."""
    pause_s = LOOK_EVERY_S if orders["own_temp"] else LOOK_OUTSIDE_EVERY_S
    while True:
        ready, _, _ = select.select([0, bell], [], [], pause_s)
        if 0 in ready and not os.read(0, 4096):
            return LEFT
        if bell in ready:
            os.read(bell, 4096)
        for pid, status in reaped():
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code in {0, FAILED} else ENDED
        if why := over(child, orders):
            return why


def over(child: int, orders: dict[str, Any]) -> int:
    """The code of the limit that all processes together have passed."""
    family = {child, *descendants()}
    if len(family) > orders["processes"]:
        return PROCESSES
    if sum(map(resident, family)) > orders["memory_bytes"]:
        return MEMORY
    files, stored_bytes = stored(orders)
    return FILES if files > orders["files"] or stored_bytes > orders["disk_bytes"] else 0


def stored(orders: dict[str, Any]) -> tuple[int, int]:
    """How many files there are in the private folder, and how large they are together."""
    if orders["own_temp"]:  # a file system of its own, whose size has a limit
        inside = os.statvfs(orders["temp"])
        return inside.f_files - inside.f_ffree, 0
    files = size = 0
    for folder, folders, names in os.walk(orders["temp"]):
        files += len(folders) + len(names)
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
        if files > orders["files"]:
            break
    return files, size


def resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
        fields = file.read().split()
        return (int(fields[1]) - int(fields[2]) // 2) * PAGE  # what is shared, such as Python itself, counts half
    return 0


def descendants() -> list[int]:
    """Every process below this one. Who lost its parent is ours too."""
    parents = {}
    for name in listed("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {os.getpid()})


def listed(folder: str) -> list[str]:
    """The names in a folder, none where there is no such folder. The end of a child may interrupt the look, above all
    under sandlock, where another process answers it; Python does not repeat that by itself.
    """
    while True:
        try:
            return os.listdir(folder)
        except InterruptedError:
            continue
        except FileNotFoundError:
            return []


def end_all() -> None:
    """Kill whatever is left, until nothing is. Who forks meanwhile is met in the next round."""
    until = time.monotonic() + 2.0
    while (left := descendants()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for _ in reaped():
            pass


def reaped() -> list[tuple[int, int]]:
    """Who has ended since, with its status."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # there is none but on Linux
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# ---- in the child ----


def run(orders: dict[str, Any], params: dict[str, Any]) -> int:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prctl(DUMPABLE, 1)
    prctl(PARENT_DIED, signal.SIGKILL)
    os.setsid()
    result = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    limit(orders)
    os.chdir(orders["temp"])
    sys.argv = ["main.py"]
    sys.path[:0] = [orders["bundle"]]
    sys.path += [orders["packages"]] if orders["packages"] else []
    try:
        said, code = answer(params), 0
    except BaseException as error:  # noqa: BLE001  # whatever it raises, SystemExit too, is its answer
        said, code = {"error": described(error, orders["bundle"])}, FAILED
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    try:
        raw = json.dumps(said, allow_nan=False).encode("ascii")
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        code, raw = FAILED, json.dumps({"error": f"run returned what is no JSON: {error or 'too large'}"}).encode()
    try:
        while raw:
            raw = raw[os.write(result, raw) :]
    except OSError:
        return ENDED
    return code


def answer(params: dict[str, Any]) -> dict[str, Any]:
    program = importlib.import_module("main")
    if not callable(getattr(program, "run", None)):
        raise TypeError("main.py has no run(params)")
    came = program.run(params)
    return {"text": came} if isinstance(came, str) else {"json": came}


def limit(orders: dict[str, Any]) -> None:
    for name, most in (
        ("RLIMIT_CPU", orders["cpu_s"]),
        ("RLIMIT_AS", orders["memory_bytes"]),
        ("RLIMIT_FSIZE", orders["disk_bytes"]),
        ("RLIMIT_NPROC", orders["processes"] if orders["own_user"] else None),
        ("RLIMIT_NOFILE", 128),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_MEMLOCK", 0),
    ):
        kind = getattr(resource, name, None)
        if kind is not None and most is not None:
            with contextlib.suppress(ValueError, OSError):  # some systems refuse some of them
                resource.setrlimit(kind, (most, most))


def described(error: BaseException, bundle: str) -> str:
    """Type, message and places; no line of the source."""
    places = [
        f"{os.path.relpath(frame.filename, bundle)}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__, limit=50)
        if frame.filename.startswith(bundle + os.sep)
    ]
    message = str(error)
    if isinstance(error, SyntaxError):
        message = str(error.msg)
        places.append(f"{os.path.basename(error.filename or 'main.py')}:{error.lineno}")
    if isinstance(error, SystemExit):
        message = f"it ended itself with {error.code!r}"
    where = f" ({', '.join(places[-5:])})" if places else ""
    return f"{type(error).__name__}: {message[:1500]}{where}"


if __name__ == "__main__":
    os._exit(main())
