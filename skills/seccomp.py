"""A filter of system calls, as the kernel takes it: what no program of a skill has a use for, and what goes round limits.

Written out by hand for the two processors that servers have. The numbers are those of Linux's own tables
(`arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h`).
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass
from typing import Final

_DENIED: Final = {
    # Looking into other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Building rooms of one's own.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # Memory that counts for nobody.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    # Parts of the kernel that are seldom needed and often broken.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "syslog": (103, 116),
    "personality": (135, 92),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
"""Numbers on x86-64 and on 64-bit ARM."""
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_NAMESPACES: Final = 0x7E02_0000
"""The flags of `clone` that make a namespace."""

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF_0000
_ERROR: Final = 0x0005_0000


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    audit: int
    """How the kernel names this processor in what it shows a filter."""


_MACHINES: Final = {"x86_64": _Machine(0, 0xC000_003E), "aarch64": _Machine(1, 0xC000_00B7)}


def filter_for(machine: str | None = None) -> bytes | None:
    """The filter for this kind of processor, or none where its numbers are not known here."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    forbidden = _step(_RETURN, _ERROR | errno.EPERM)
    missing = _step(_RETURN, _ERROR | errno.ENOSYS)
    steps = [
        _step(_LOAD, 4),  # the processor: a call in another one's numbers is not there
        _step(_EQUAL, found.audit, met=1),
        missing,
        _step(_LOAD, 0),  # the number
        _step(_AT_LEAST, 0x4000_0000, missed=1),  # the third set of numbers on x86-64
        missing,
        _step(_EQUAL, _CLONE3, missed=1),  # its flags can't be seen; the C library falls back to clone
        missing,
        _step(_EQUAL, _CLONE[found.column], missed=4),
        _step(_LOAD, 16),  # the first argument's lower half
        _step(_ANY_BIT, _NAMESPACES, missed=1),
        forbidden,
        _step(_RETURN, _ALLOW),
    ]
    for numbers in _DENIED.values():
        steps += [_step(_EQUAL, numbers[found.column], missed=1), forbidden]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, *, met: int = 0, missed: int = 0) -> bytes:
    """One instruction; `met` and `missed` say how many to skip after a comparison."""
    return struct.pack("=HBBI", code, met, missed, value)
