"""Follows the runners of a run to their end: who is there, how they end, and what they say."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from loadtests.cluster.release import Installed, Kubectl
from tools import progress

PAUSE = 1.0
"""Seconds between two looks, each of which takes a process."""

MARGIN = 60.0
"""Seconds that the cluster may take beyond its own deadline until it says that the run has ended."""

LAST_WORDS = 20.0
"""Seconds for a log to end after its container."""

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Runner:
    """One runner, as far as it was seen."""

    index: int
    log: Path
    node: str = ""
    begun: bool = False
    exit_code: int | None = None
    trouble: str = ""
    """Why it has no place or no container, in the cluster's words."""

    @property
    def runs(self) -> bool:
        """Whether its container has begun and not ended."""
        return self.begun and self.exit_code is None

    def summary(self) -> dict | None:
        """What its k6 counted; none where it did not come to that."""
        return find_summary(self.log.read_text(errors="replace")) if self.log.exists() else None


@dataclass
class Ended:
    """How a run ended."""

    runners: list[Runner]
    complete: bool
    """Whether both Jobs say so: that of the runners, and that which starts them."""
    words: list[str] = field(default_factory=list)
    """What the Jobs say of their failure, and the starter."""
    began: float | None = None
    """When the runners were started, to the second, as Unix time."""

    def reasons(self) -> list[str]:
        """Why a run failed; nothing for one that passed."""
        if self.complete:
            return []
        troubles = [f"runner {each.index}: {each.trouble}" for each in self.runners if each.trouble]
        ends = [
            f"runner {each.index}: k6 ended with exit {each.exit_code}"
            for each in self.runners
            if each.exit_code
        ]
        return [*self.words, *troubles, *ends]


def find_summary(log: str) -> dict | None:
    """k6's summary in a runner's log: the last line that begins with a JSON object with metrics.

    What k6 says after it may follow on the same line.
    """
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            try:
                found, _ = json.JSONDecoder().raw_decode(line)
            except ValueError:
                continue
            if "metrics" in found:
                return found
    return None


def follow(kubectl: Kubectl, installed: Installed, count: int, folder: Path) -> Ended:
    """Waits until the Jobs have ended; the logs of the runners are in the folder then."""
    runners = [Runner(index, folder / f"runner-{index}.log") for index in range(count)]
    end = time.monotonic() + installed.deadline + MARGIN
    shown = ""
    with ExitStack() as logs:
        followed: dict[str, subprocess.Popen] = {}
        while True:
            seen = Seen(kubectl.items("jobs,pods", "--selector", installed.selector))
            for pod in seen.runners(installed.job):
                runner = runners[int(pod["metadata"]["annotations"][INDEX])]
                _look(pod, runner)
                name = pod["metadata"]["name"]
                if runner.begun and name not in followed:
                    followed[name] = logs.enter_context(_written(kubectl, name, runner.log))
            if (text := _progress(runners)) != shown:
                progress.say("runners", shown := text)
            verdicts = [seen.verdict(name) for name in installed.jobs]
            # Runners that could not start are stopped; missing ones are not waited for.
            given_up = verdicts[1] is False and not any(runner.runs for runner in runners)
            if verdicts[0] is not None or given_up or time.monotonic() > end:
                break
            time.sleep(PAUSE)
        for process in followed.values():
            _end(process)
    complete = verdicts == [True, True]
    words = [] if complete else seen.words(installed.jobs)
    return Ended(runners, complete, words, seen.completed(installed.jobs[1]))


@contextmanager
def _written(kubectl: Kubectl, pod: str, file: Path) -> Iterator[subprocess.Popen]:
    """Writes what a pod logs, from its first line: its pod may be gone with the Job that failed."""
    argv = kubectl.argv("logs", "--follow", pod)
    with (
        file.open("wb") as output,
        subprocess.Popen(argv, env=kubectl.environment, stdout=output) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def _end(process: subprocess.Popen) -> None:
    try:
        process.wait(LAST_WORDS)
    except subprocess.TimeoutExpired:
        process.terminate()


def _look(pod: dict, runner: Runner) -> None:
    """Takes over what is new of a runner."""
    status = pod["status"]
    runner.node = pod["spec"].get("nodeName", runner.node)
    runner.trouble = ""
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            # Its first sentence: what nodes lack. The others are about preemption.
            runner.trouble = condition.get("message", condition["reason"]).partition(". ")[0]
    for container in status.get("containerStatuses", []):
        (kind, state), *_ = container["state"].items()
        runner.begun = runner.begun or kind != "waiting"
        if kind == "terminated":
            runner.exit_code = state["exitCode"]
        if kind == "waiting" and state.get("reason") != "ContainerCreating":
            runner.trouble = f"{state.get('reason', '')} {state.get('message', '')}".strip()


def _progress(runners: list[Runner]) -> str:
    ended = sum(runner.exit_code is not None for runner in runners)
    failed = sum(bool(runner.exit_code) for runner in runners)
    there = sum(runner.begun for runner in runners)
    text = f"{there} of {len(runners)} are there, {ended} have ended, {failed} failed"
    troubles = {runner.trouble for runner in runners if runner.trouble}
    return "; ".join([text, *sorted(troubles)])


class Seen:
    """The Jobs and pods of a release at one moment."""

    def __init__(self, items: list[dict]) -> None:
        self._jobs = {each["metadata"]["name"]: each for each in items if each["kind"] == "Job"}
        self._pods = [each for each in items if each["kind"] == "Pod"]

    def runners(self, job: str) -> list[dict]:
        """The pods of a Job."""
        return [
            pod
            for pod in self._pods
            if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job
        ]

    def verdict(self, job: str) -> bool | None:
        """Whether a Job has succeeded; None while it runs. One that is gone has not."""
        if job not in self._jobs:
            return False
        conditions = self._conditions(job)
        if "Complete" in conditions:
            return True
        return False if "Failed" in conditions else None

    def completed(self, job: str) -> float | None:
        """When a Job was complete."""
        at = self._jobs.get(job, {}).get("status", {}).get("completionTime")
        return datetime.fromisoformat(at).timestamp() if at else None

    def words(self, jobs: tuple[str, str]) -> list[str]:
        """What failed, in the words of the Jobs, and of the pod that starts the runners."""
        words = []
        for name in jobs:
            if failed := self._conditions(name).get("Failed"):
                words.append(f"Job {name}: {failed.get('reason')}: {failed.get('message')}")
        for pod in self.runners(jobs[1]):
            for container in pod["status"].get("containerStatuses", []):
                said = container["state"].get("terminated", {}).get("message", "")
                words += re.findall(r'msg="([^"]*started[^"]*) at ', said)
        return words

    def _conditions(self, job: str) -> dict[str, dict]:
        found = self._jobs.get(job, {}).get("status", {}).get("conditions", [])
        return {each["type"]: each for each in found if each["status"] == "True"}
