"""Parses the output of cargo test, pytest and helm-unittest: counts and failed tests."""

import re
import shlex
from dataclasses import dataclass, field

CARGO = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
CARGO_FAILED = re.compile(r"test (.+) \.\.\. FAILED$")
CARGO_TARGET = re.compile(r"error: (?:doc)?test failed, to rerun pass `(.*)`$")
PYTEST = re.compile(r"=+ (.*\b(?:passed|failed|errors?|skipped)\b.*) in [\d.]+s(?: \(.*\))? =+$")
PYTEST_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
PYTEST_FAILED = re.compile(r"(?:FAILED|ERROR) (tests/\S+?\.py(?:::\w+)*(?:\[.*?\](?= - |$))?)")
HELM = re.compile(r"Tests:\s+(?:(\d+) failed, )?(?:\d+ errored, )?(\d+) passed")


@dataclass(frozen=True)
class Failure:
    """A test, or a phase without tests, and the command to rerun it."""

    name: str
    command: str


@dataclass
class Report:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    _pytest: list[str] = field(default_factory=list)
    _cargo: list[str] = field(default_factory=list)
    _target: str = ""

    def read(self, line: str) -> None:
        line = line.rstrip()
        if found := CARGO.match(line):
            self._count(*map(int, found.groups()))
        elif found := PYTEST.match(line):
            counts = {
                kind.rstrip("s"): int(count) for count, kind in PYTEST_COUNT.findall(found[1])
            }
            failed = counts.get("failed", 0) + counts.get("error", 0)
            self._count(counts.get("passed", 0), failed, counts.get("skipped", 0))
        elif found := HELM.match(line):
            self._count(int(found[2]), int(found[1] or 0), 0)
        elif found := CARGO_FAILED.match(line):
            self._cargo.append(found[1])
        elif found := CARGO_TARGET.match(line):
            self._target = found[1]
        elif found := PYTEST_FAILED.match(line):
            self._pytest.append(found[1])

    def failures(self) -> list[Failure]:
        cargo = f"(cd services && cargo test --locked {self._target} -- --exact "
        return [
            *(Failure(name, f"{cargo}{shlex.quote(name)})") for name in self._cargo),
            *(
                Failure(name, f"python3 hack/tools run pytest {shlex.quote(name)}")
                for name in dict.fromkeys(self._pytest)
            ),
        ]

    def _count(self, passed: int, failed: int, skipped: int) -> None:
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
