"""A filter of system calls, as the kernel's classic BPF.

A network of its own does not keep a command from the sockets that stand as files (a container
engine's, a keyring's), so only sockets of the internet's kinds can be made. What comes in pairs is
allowed, but for datagrams: those could be sent anywhere. Rings of io_uring, which make sockets past
a filter, are refused. Numbers: <linux/audit.h>, <linux/seccomp.h>, the tables of system calls.
"""

import struct

from msgspec import Struct


class Machine(Struct, frozen=True, kw_only=True):
    audit: int  # AUDIT_ARCH_…
    socket: int
    socketpair: int
    foreign: int = 0  # numbers from here on belong to another kind of program (x32)


MACHINES = {
    "x86_64": Machine(audit=0xC000003E, socket=41, socketpair=53, foreign=0x40000000),
    "aarch64": Machine(audit=0xC00000B7, socket=198, socketpair=199),
    "riscv64": Machine(audit=0xC00000F3, socket=198, socketpair=199),
}
FAMILIES = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
IO_URING = 425  # io_uring_setup, the same everywhere
DATAGRAM, KIND = 2, 0xF  # SOCK_DGRAM, SOCK_TYPE_MASK

_LOAD, _EQUAL, _FROM, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # places in struct seccomp_data
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


def program(machine: str) -> bytes:
    """The filter for a machine as `os.uname` names it; b"" for one that is not known."""
    found = MACHINES.get(machine)
    if found is None:
        return b""
    lines: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", _ARCH),
        (_EQUAL, "", "no", found.audit),
        (_LOAD, "", "", _NUMBER),
    ]
    if found.foreign:
        lines.append((_FROM, "no", "", found.foreign))
    lines += [
        (_EQUAL, "none", "", IO_URING),
        (_EQUAL, "pair", "", found.socketpair),
        (_EQUAL, "", "yes", found.socket),
        (_LOAD, "", "", _FIRST),
        *((_EQUAL, "yes", "", family) for family in FAMILIES),
        (_RETURN, "no:", "", _EPERM),
        (_LOAD, "pair:", "", _SECOND),
        (_AND, "", "", KIND),
        (_EQUAL, "no", "", DATAGRAM),
        (_RETURN, "yes:", "", _ALLOW),
        (_RETURN, "none:", "", _ENOSYS),
    ]
    # A jump can only go forward: `no` and `none` are repeated at the end for those behind them.
    lines.append((_RETURN, "no:", "", _EPERM))
    return b"".join(_coded(lines, at) for at in range(len(lines)))


def _coded(lines: list[tuple[int, str, str, int]], at: int) -> bytes:
    code, yes, no, value = lines[at]

    def distance(name: str) -> int:
        if not name or name.endswith(":"):
            return 0
        names = [line[1] for line in lines]
        return names.index(f"{name}:", at + 1) - at - 1

    return struct.pack("<HBBI", code, distance(yes), distance(no), value)
