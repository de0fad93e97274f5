"""Confinement of a process that runs code which nobody trusts: what Linux keeps it from, for good.

It starts no process and signals no other one (seccomp), and it writes nowhere but below some folders and opens no TCP
connection (Landlock).  It reads what its user may read.  Both are inherited and cannot be undone.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
SECCOMP_GET_ACTION_AVAIL = 2
SECCOMP_RET_ERRNO = 0x0005_0000
SECCOMP_RET_ALLOW = 0x7FFF_0000
SECCOMP_RET_KILL_PROCESS = 0x8000_0000
CLONE_THREAD = 0x0001_0000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
"""Offsets in `struct seccomp_data`; each argument takes eight bytes, its low half first."""
LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""Operations of the classic BPF: on a word at an offset, and on constants."""
X32 = 0x4000_0000
"""Calls of another interface of the same processor, which have this bit."""

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
WRITES = (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Write to files, remove and make files, folders and everything else that has a name (version 1)."""
WRITES_OF_VERSION = {2: 1 << 13, 3: 1 << 14}
"""Move between folders; truncate."""
TO_A_FILE = (1 << 1) | (1 << 14)
TCP = 0b11
"""Bind and connect (version 4)."""
SCOPES = 0b11
"""Abstract sockets and signals stay among confined processes (version 6)."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The numbers of system calls on one architecture."""

    audit: int
    """The architecture's number in `struct seccomp_data`."""
    seccomp: int
    refused: tuple[int, ...]
    """Processes, signals and memory of others, shared memory that outlives a process, attributes of files; BPF, keys,
    namespaces; and io_uring, which calls without system calls."""
    clone: int
    own: tuple[int, ...]
    """Calls whose first argument must be this process."""
    own_or_none: tuple[int, ...]
    """The same, or zero."""


CLONE3 = 435
SINCE_5 = (424, 425, 426, 427, 434, 438, 440, 452)
"""pidfd_send_signal, io_uring_setup, _enter and _register, pidfd_open, pidfd_getfd, process_madvise, fchmodat2: these
have one number everywhere."""
CALLS = {
    "x86_64": _Calls(
        audit=0xC000_003E,
        seccomp=317,
        refused=(
            *(57, 58, 59, 322),
            *(200, 129, 297, 101, 310, 311, 141),
            *(29, 68, 64, 240),
            *(90, 91, 268, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199),
            *(321, 323, 250, 248, 308, 272, 165),
            *SINCE_5,
        ),
        clone=56,
        own=(62, 234),
        own_or_none=(302, 203, 144, 142),
    ),
    "aarch64": _Calls(
        audit=0xC000_00B7,
        seccomp=277,
        refused=(
            *(221, 281),
            *(130, 138, 240, 117, 270, 271, 140),
            *(194, 186, 190, 180),
            *(52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16),
            *(280, 282, 219, 217, 268, 97, 40),
            *SINCE_5,
        ),
        clone=220,
        own=(129, 131),
        own_or_none=(261, 122, 119, 118),
    ),
}
"""The refused by row: fork and vfork (x86_64 alone), execve, execveat; tkill, rt_sigqueueinfo, rt_tgsigqueueinfo,
ptrace, process_vm_readv and _writev, setpriority; shmget, msgget, semget, mq_open; the families of chmod, chown, utime,
setxattr and removexattr; bpf, userfaultfd, keyctl, add_key, setns, unshare, mount.  Own: kill, tgkill.  Own or none:
prlimit64, sched_setaffinity, sched_setscheduler, sched_setparam."""


def confine(folders: Sequence[str]) -> None:
    """Confine this process and all its threads to come; it writes to the folders alone.  Call it with one thread.

    What Linux lacks here is left out: `lacking` names it.
    """
    confine_files(folders)
    libc = ctypes.CDLL(None, use_errno=True)
    if _has_filters():
        instructions = _program(CALLS[platform.machine()], os.getpid())
        code = ctypes.create_string_buffer(b"".join(instructions))
        program = _FilterProgram(len(instructions), ctypes.addressof(code))
        _checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "prctl(PR_SET_SECCOMP)")


def confine_files(folders: Sequence[str]) -> None:
    """Confine the files of this process and of all that it starts: they write to the folders alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    if version := _landlock_version():
        _restrict_files(libc, version, folders)


@cache
def lacking() -> tuple[str, ...]:
    """Return what a confined process could do here all the same, since Linux or its container lacks a service."""
    return tuple(
        text
        for text, is_there in (
            ("start processes and send signals (no seccomp filters)", _has_filters()),
            ("write files (no Landlock)", bool(_landlock_version())),
        )
        if not is_there
    )


def _has_filters() -> bool:
    calls = CALLS.get(platform.machine())
    if calls is None:
        return False
    action = ctypes.c_uint32(SECCOMP_RET_ERRNO)
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(calls.seccomp, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def _landlock_version() -> int:
    """Return the version of Landlock; 0 without it."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _program(calls: _Calls, process: int) -> list[bytes]:
    """Return the filter's instructions, for a process of this id."""
    refusal = SECCOMP_RET_ERRNO | errno.EPERM
    low = [
        _instruction(LOAD, ARCHITECTURE_AT),
        *_unless(EQUAL, calls.audit, SECCOMP_RET_KILL_PROCESS),
        _instruction(LOAD, NUMBER_AT),
        *_if(AT_LEAST, X32, refusal),
        *_if(EQUAL, CLONE3, SECCOMP_RET_ERRNO | errno.ENOSYS),  # its flags are out of sight; libc calls clone then
    ]
    for number in calls.refused:
        low += _if(EQUAL, number, refusal)
    # Each of these blocks ends with a verdict, and is skipped for other calls.
    thread = [
        _instruction(LOAD, ARGUMENTS_AT),
        _instruction(AND, CLONE_THREAD),
        *_if(EQUAL, 0, refusal),
        _instruction(RETURN, SECCOMP_RET_ALLOW),
    ]
    low += _block(calls.clone, thread)
    itself = _if(EQUAL, process, SECCOMP_RET_ALLOW)
    for number in calls.own:
        low += _block(number, [_instruction(LOAD, ARGUMENTS_AT), *itself, _instruction(RETURN, refusal)])
    for number in calls.own_or_none:
        none = _if(EQUAL, 0, SECCOMP_RET_ALLOW)
        low += _block(number, [_instruction(LOAD, ARGUMENTS_AT), *none, *itself, _instruction(RETURN, refusal)])
    return [*low, _instruction(RETURN, SECCOMP_RET_ALLOW)]


def _block(number: int, body: list[bytes]) -> list[bytes]:
    return [_instruction(EQUAL, number, 0, len(body)), *body]


def _if(comparison: int, constant: int, verdict: int) -> list[bytes]:
    return [_instruction(comparison, constant, 0, 1), _instruction(RETURN, verdict)]


def _unless(comparison: int, constant: int, verdict: int) -> list[bytes]:
    return [_instruction(comparison, constant, 1, 0), _instruction(RETURN, verdict)]


def _instruction(operation: int, constant: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction; jumps count the instructions to skip."""
    return struct.pack("=HBBI", operation, if_true, if_false, constant)


def _restrict_files(libc: Any, version: int, folders: Sequence[str]) -> None:
    writes = WRITES | sum(bit for since, bit in WRITES_OF_VERSION.items() if version >= since)
    attributes = struct.pack("=QQQ", writes, TCP * (version >= 4), SCOPES * (version >= 6))
    attributes = attributes[: 8 + 8 * (version >= 4) + 8 * (version >= 6)]
    rules = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    _checked(rules, "landlock_create_ruleset")
    try:
        for path in (*folders, *DEVICES):
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = writes if os.path.isdir(path) else writes & TO_A_FILE  # noqa: PTH112 - a path as Linux takes it
            rule = struct.pack("=Qi", allowed, beneath)
            _checked(libc.syscall(LANDLOCK_ADD_RULE, rules, LANDLOCK_RULE_PATH_BENEATH, rule, 0), "landlock_add_rule")
            os.close(beneath)
        _checked(libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    finally:
        os.close(rules)


def _checked(returned: int, call: str) -> None:
    if returned < 0:
        raise OSError(ctypes.get_errno(), call)
