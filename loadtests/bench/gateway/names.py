"""Names for functions of a program without symbols, from what C++ keeps at run time.

Envoy's release is stripped, but each class with virtual functions has a table of them and, beside it, the
class's name (Itanium C++ ABI, sections 2.5.2 and 2.9). So every virtual function is known by its class. Where
functions begin is in the table for unwinding (.eh_frame_hdr, Linux Standard Base, section 10.6).
"""

import bisect
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

RELATIVE = 8
"""R_X86_64_RELATIVE: a word that holds an address of the program itself."""

WORD = 8
TYPE_NAME = re.compile(rb"(?:N[\w$.]+E|\d+[A-Za-z_][\w$.]*)(?=\0)")


@dataclass(frozen=True)
class Section:
    """A part of the file, and where it is in memory."""

    address: int
    offset: int
    size: int

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


@dataclass(frozen=True)
class Names:
    """The functions of a program."""

    starts: list[int]
    classes: dict[int, str]
    """The class by the begin of a virtual function; of several that share it, the shortest."""
    allocator: Section | None
    text: Section

    def class_of(self, offset: int) -> str | None:
        """The class of the virtual function at this place of the file."""
        address = offset - self.text.offset + self.text.address
        index = bisect.bisect_right(self.starts, address) - 1
        return self.classes.get(self.starts[index]) if index >= 0 else None

    def allocates(self, offset: int) -> bool:
        """Whether this place of the file is the memory allocator's."""
        found = self.allocator
        return found is not None and found.offset <= offset < found.offset + found.size


def of(program: Path) -> Names:
    """Reads a program for x86-64."""
    data = program.read_bytes()
    sections = _sections(data)
    missing = {".text", ".rodata", ".rela.dyn", ".eh_frame_hdr"} - set(sections)
    if missing:
        raise ToolError(f"{program} has no {', '.join(sorted(missing))}")
    text = sections[".text"]
    words = _relocated(data, sections[".rela.dyn"])
    return Names(
        starts=_starts(data, sections[".eh_frame_hdr"]),
        classes=_classes(words, _types(data, words, sections[".rodata"]), text),
        # tcmalloc has a section of its own.
        allocator=sections.get("google_malloc"),
        text=text,
    )


def _sections(data: bytes) -> dict[str, Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * index) for index in range(count)]
    strings = headers[names][4]

    def name(offset: int) -> str:
        begin = strings + offset
        return data[begin : data.index(b"\0", begin)].decode()

    return {name(header[0]): Section(header[3], header[4], header[5]) for header in headers}


def _relocated(data: bytes, section: Section) -> dict[int, int]:
    """Words of the program that hold addresses of its own, by their addresses."""
    entries = struct.iter_unpack("<QQq", data[section.offset : section.offset + section.size])
    return {address: value for address, kind, value in entries if kind & 0xFFFFFFFF == RELATIVE}


def _types(data: bytes, words: dict[int, int], rodata: Section) -> dict[int, str]:
    """The mangled names of classes by the addresses of their type_info, whose second word names them."""
    found = {}
    for address, value in words.items():
        if value in rodata:
            match = TYPE_NAME.match(data, value - rodata.address + rodata.offset)
            if match:
                found[address - WORD] = match[0].decode()
    return found


def _classes(words: dict[int, int], types: dict[int, str], text: Section) -> dict[int, str]:
    """The class of each function that a table of virtual functions names."""
    found: dict[int, set[str]] = {}
    for address, value in words.items():
        if value not in types:
            continue
        # The functions follow the pointer to the type_info.
        slot = address + WORD
        while words.get(slot, 0) in text:
            found.setdefault(words[slot], set()).add(types[value])
            slot += WORD
    readable = _demangled({name for names in found.values() for name in names})
    return {
        function: min((readable[name] for name in names), key=lambda name: (len(name), name))
        for function, names in found.items()
    }


def _demangled(names: set[str]) -> dict[str, str]:
    if not shutil.which("c++filt"):
        return {name: name for name in names}
    ordered = sorted(names)
    result = subprocess.run(
        ["c++filt", "--types"], input="\n".join(ordered), capture_output=True, text=True, check=True
    )
    return dict(zip(ordered, result.stdout.splitlines(), strict=True))


def _starts(data: bytes, section: Section) -> list[int]:
    """Where functions begin: pairs of 32-bit offsets from the section's address."""
    (count,) = struct.unpack_from("<I", data, section.offset + 8)
    pairs = struct.iter_unpack("<ii", data[section.offset + 12 : section.offset + 12 + 8 * count])
    return sorted(section.address + start for start, _ in pairs)
