"""`bench gateway --perf`: samples are counted for what called them."""

from pathlib import Path

import pytest

from loadtests.bench.gateway import names, profile, report_profile
from loadtests.bench.gateway.names import Names, Section
from loadtests.bench.gateway.profile import Frame
from tools import resolve

ENVOY = "/bin/envoy"
LIBC = "/usr/lib/libc.so.6"

KNOWN = Names(
    starts=[0x2000, 0x2100, 0x2200],
    classes={0x2000: "Envoy::Router::Filter", 0x2200: "quiche::BalsaFrame"},
    allocator=Section(address=0x9000, offset=0x8000, size=0x100),
    text=Section(address=0x2000, offset=0x1000, size=0x1000),
)
"""A program whose second function has no class."""


@pytest.fixture(scope="module")
def envoy() -> Path:
    return resolve.ensure(["envoy"])["envoy"]


def test_functions_of_a_stripped_envoy_have_classes(envoy: Path) -> None:
    found = names.of(envoy)
    assert found.starts == sorted(found.starts)
    assert set(found.classes) <= set(found.starts)
    for name in ("Envoy::Http::ConnectionManagerImpl", "Envoy::Http::Http1::ServerConnectionImpl"):
        function = next(begin for begin, known in found.classes.items() if known == name)
        place = function - found.text.address + found.text.offset
        assert found.class_of(place) == found.class_of(place + 1) == name
    assert found.class_of(0) is None
    assert found.allocates(found.allocator.offset)
    assert not found.allocates(found.text.offset)


def test_a_program_of_another_kind_is_refused(tmp_path: Path) -> None:
    # A whole ELF header, and no section but the one without a name.
    program = tmp_path / "program"
    header = bytearray(128)
    header[40:48] = (64).to_bytes(8, "little")
    header[58:64] = (64).to_bytes(2, "little") + (1).to_bytes(2, "little") + bytes(2)
    program.write_bytes(header)
    with pytest.raises(names.ToolError, match=r"has no \.eh_frame_hdr"):
        names.of(program)


def test_a_sample_counts_for_its_nearest_known_caller() -> None:
    router, anonymous, parser = (Frame(at, "[unknown]", ENVOY) for at in (0x1001, 0x1101, 0x1201))
    stacks = [
        [router],
        [anonymous, router, parser],
        [parser, router],
        [Frame(0x8000, "[unknown]", ENVOY), router],
        [Frame(1, "memcpy", LIBC), router],
        [Frame(2, "tcp_ack", "[kernel.kallsyms]"), Frame(3, "__x64_sys_sendto+0x1", "[kernel]")],
        [Frame(2, "tcp_ack", "[kernel.kallsyms]"), router],
        [Frame(9, "[unknown]", ENVOY)],
    ]
    assert profile.shares(stacks, KNOWN) == {
        "router filter, retries": 0.25,
        "HTTP/1 parser": 0.125,
        "memory allocator": 0.125,
        "libc.so.6": 0.125,
        "kernel: sendto": 0.125,
        "kernel: other": 0.125,
        "unknown": 0.125,
    }


def test_a_program_that_is_not_envoy_is_one_part() -> None:
    stacks = [[Frame(1, "ngx_palloc", "/bin/nginx")], [Frame(1, "memcpy", LIBC)]]
    assert profile.shares(stacks, None) == {"the program itself": 0.5, "libc.so.6": 0.5}


def test_shares_become_microseconds() -> None:
    run = {"requests": 10, "wrong": 0, "others_cores": 0.0, "stolen_cores": 0.0}
    record = {
        "plan": {"rounds": 1, "seconds": 1.0, "rate": 0.0},
        "machine": {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"},
        "versions": {"Envoy": "1.40.0"},
        "cpus": [0, 1],
        "load_average": {"before": [0.0] * 3, "after": [0.0] * 3},
        "results": {
            "minimal Envoy": {
                "closed": run,
                "cpu_us": 20.0,
                "shares": {"buffers": 0.25, "unknown": 0.001},
                "calls": {"readv": 4.0, "futex": 0.001},
            },
            "nginx": {
                "closed": run,
                "cpu_us": 10.0,
                "shares": {"the program itself": 0.5},
                "calls": {"recvfrom": 2.0},
            },
        },
    }
    text = report_profile.markdown(record)
    assert "| buffers            | 5.00          | –     |" in text
    assert "| the program itself | –             | 5.00  |" in text
    assert "| readv    | 4.00          | –     |" in text
    assert "unknown" not in text
    assert "futex" not in text
