"""System calls that no notebook needs, refused by a seccomp filter.

A process in the sandbox has no rights that these calls could use. Refusing them takes away what a
fault in the kernel could give, and the ways to memory that no limit counts. The filter is the
kernel's own small language (classic BPF, see seccomp(2)): it looks at the number of a call and
answers EPERM, or ENOSYS for `clone3`, whose flags it cannot see, so that the C library uses
`clone`.
"""

from __future__ import annotations

import ctypes
import errno
import platform

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # the CLONE_NEW… flags that clone(2) takes

# From the kernel's tables arch/x86/entry/syscalls/syscall_64.tbl and
# include/uapi/asm-generic/unistd.h (aarch64); from 424 on the numbers are the same.
_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "memfd_create": 319, "shmget": 29, "personality": 135,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "quotactl": 179, "syslog": 103,
    "kexec_load": 246, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "clock_settime": 227, "settimeofday": 164, "adjtimex": 159, "swapon": 167, "reboot": 169,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "memfd_create": 279, "shmget": 194, "personality": 92,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "quotactl": 60, "syslog": 116,
    "kexec_load": 104, "init_module": 105, "finit_module": 273, "delete_module": 106,
    "clock_settime": 112, "settimeofday": 170, "adjtimex": 171, "swapon": 224, "reboot": 142,
}  # fmt: skip
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
_CLONE3 = 435
_MACHINES = {"x86_64": (0xC000003E, _X86_64, 56), "aarch64": (0xC00000B7, _AARCH64, 220)}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def refuse() -> None:
    """Refuse these calls from now on, in this process and in all that it starts.

    Raises:
        OSError: if the kernel has no seccomp, or this architecture has no list of numbers here.
    """
    if platform.machine() not in _MACHINES:
        raise OSError(f"no list of system calls for {platform.machine()}")
    program = _program(*_MACHINES[platform.machine()])
    instructions = (_Instruction * len(program))(*(_Instruction(*each) for each in program))
    pointer = ctypes.pointer(_Program(len(program), instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_ulong
    if libc.prctl(_PR_SET_SECCOMP, word(_MODE_FILTER), pointer, word(0), word(0)):
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


def _program(
    architecture: int, numbers: dict[str, int], clone: int
) -> list[tuple[int, int, int, int]]:
    """The filter. Jumps count the instructions that are left out."""
    refused = sorted({*numbers.values(), *_EVERYWHERE.values()})
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),  # 32-bit calls on a 64-bit kernel have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    return [
        *program,
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
