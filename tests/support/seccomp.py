"""Makes system calls fail as a container's seccomp(2) filter does.

Usage: comma-separated system call numbers, program, arguments.
"""

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {
    # This number is the same on all architectures (new in Linux 5.6).
    "openat2": {"x86_64": 437, "aarch64": 437},
    "setpriority": {"x86_64": 141, "aarch64": 140},
    "sched_setscheduler": {"x86_64": 144, "aarch64": 119},
    "sched_setattr": {"x86_64": 314, "aarch64": 274},
}

LOAD_NUMBER, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOWED, FAILS = 0x7FFF0000, 0x50001

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def without(*calls: str) -> tuple[str, ...]:
    """Prefix that disables these system calls."""
    numbers = ",".join(str(NUMBERS[call][platform.machine()]) for call in calls)
    return (sys.executable, __file__, numbers)


def deny(numbers: list[int]) -> None:
    """Also applies after exec."""
    code = [(LOAD_NUMBER, 0, 0, 0)]
    for at, number in enumerate(numbers):
        # Jumps past the remaining comparisons and the allow rule.
        code.append((EQUAL, len(numbers) - at, 0, number))
    code += [(RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, FAILS)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(text))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert prctl(PR_SET_SECCOMP, FILTER, ctypes.create_string_buffer(program), 0, 0) == 0


if __name__ == "__main__":
    deny([int(number) for number in sys.argv[1].split(",")])
    os.execv(sys.argv[2], sys.argv[2:])
