"""Reads of a program for which machine it is, and what it needs to be loaded with."""

import struct
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

# elf(5): e_machine, and the types of program headers and of dynamic entries.
MACHINES = {62: "x86_64", 183: "aarch64"}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


@dataclass(frozen=True)
class Program:
    """A 64-bit little-endian ELF file."""

    machine: str
    interpreter: str
    """The loader it names; empty for a static program."""
    needed: tuple[str, ...]
    """The shared libraries it names."""


def read(file: Path) -> Program:
    """Reads the headers of a program."""
    data = file.read_bytes()
    # Class 2 is 64 bits, data 1 is little-endian.
    if data[:6] != b"\x7fELF\x02\x01":
        raise ToolError(f"{file} is not a 64-bit program of Linux")
    (number,) = struct.unpack_from("<H", data, 18)
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [_Segment(data, offset + index * size) for index in range(count)]
    interpreter, needed = "", ()
    for segment in segments:
        if segment.type == PT_INTERP:
            interpreter = _string(data, segment.offset)
        if segment.type == PT_DYNAMIC:
            needed = _needed(data, segment, segments)
    return Program(MACHINES.get(number, str(number)), interpreter, needed)


class _Segment:
    """A program header."""

    def __init__(self, data: bytes, at: int) -> None:
        self.type, _, self.offset, self.address, _, self.size = struct.unpack_from(
            "<IIQQQQ", data, at
        )


def _needed(data: bytes, dynamic: _Segment, segments: list[_Segment]) -> tuple[str, ...]:
    names, strings = [], 0
    for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag == DT_NULL:
            break
        if tag == DT_NEEDED:
            names.append(value)
        if tag == DT_STRTAB:
            strings = _file_offset(value, segments)
    return tuple(_string(data, strings + name) for name in names)


def _file_offset(address: int, segments: list[_Segment]) -> int:
    for segment in segments:
        if segment.type == PT_LOAD and 0 <= address - segment.address < segment.size:
            return address - segment.address + segment.offset
    raise ToolError(f"no segment holds the address {address:#x}")


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
