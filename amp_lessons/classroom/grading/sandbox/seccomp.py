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
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _FOURTH_ARGUMENT = (
    0,
    4,
    16,
    40,
)  # offsets in struct seccomp_data
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
    "msgget": 68, "semget": 64, "mq_open": 240, "setpriority": 141, "ioprio_set": 251,
    "move_pages": 279, "migrate_pages": 256, "clock_settime": 227, "settimeofday": 164,
    "adjtimex": 159, "swapon": 167, "reboot": 169,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "memfd_create": 279, "shmget": 194, "personality": 92,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "quotactl": 60, "syslog": 116,
    "kexec_load": 104, "init_module": 105, "finit_module": 273, "delete_module": 106,
    "msgget": 186, "semget": 190, "mq_open": 180, "setpriority": 140, "ioprio_set": 30,
    "move_pages": 239, "migrate_pages": 238, "clock_settime": 112, "settimeofday": 170,
    "adjtimex": 171, "swapon": 224, "reboot": 142,
}  # fmt: skip
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
_CLONE3 = 435

# Calls whose first argument decides: another process than the own one, or a family of sockets that
# no network namespace holds back, as the way from a virtual machine to its host.
_OWN, _FAMILIES = (0,), (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6
_ON_PROCESSES = {
    "x86_64": (302, 144, 142, 314, 203),  # prlimit64, sched_set{scheduler,param,attr,affinity}
    "aarch64": (261, 119, 118, 274, 122),
}
_MMAP = {"x86_64": 9, "aarch64": 222}
_SHARED, _ANONYMOUS = 0x01, 0x20  # pages of such memory can be hidden from what counts memory
_ON_SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}  # socket, socketpair

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
    program = _program(platform.machine())
    instructions = (_Instruction * len(program))(*(_Instruction(*each) for each in program))
    pointer = ctypes.pointer(_Program(len(program), instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_ulong
    if libc.prctl(_PR_SET_SECCOMP, word(_MODE_FILTER), pointer, word(0), word(0)):
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


Instructions = list[tuple[int, int, int, int]]


def _program(machine: str) -> Instructions:
    """The filter. Jumps count the instructions that are left out."""
    architecture, numbers, clone = _MACHINES[machine]
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
    for number in sorted({*numbers.values(), *_EVERYWHERE.values()}):
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    for number in _ON_PROCESSES[machine]:
        program += _only(number, _OWN, errno.EPERM)
    for number in _ON_SOCKETS[machine]:
        program += _only(number, _FAMILIES, errno.EAFNOSUPPORT)
    program += [
        (_EQUAL, 0, 5, _MMAP[machine]),
        (_LOAD, 0, 0, _FOURTH_ARGUMENT),
        (_ANY_BIT, 0, 2, _ANONYMOUS),
        (_ANY_BIT, 0, 1, _SHARED),
        (_RETURN, 0, 0, _REFUSE | errno.ENOMEM),
        (_LOAD, 0, 0, _NUMBER),
    ]
    return [
        *program,
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _only(number: int, first: tuple[int, ...], error: int) -> Instructions:
    """Allow a call with one of these first arguments, and refuse it with any other."""
    inside = [(_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for value in first:
        inside += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    inside.append((_RETURN, 0, 0, _REFUSE | error))
    return [(_EQUAL, 0, len(inside), number), *inside]
