"""Follows the runners of a run to their end: presence, results and logs."""

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

MARGIN = 60.0
"""Seconds beyond the cluster's own deadline for it to report the end of the run."""

LAST_WORDS = 20.0
"""Seconds for a log to end after its container has exited."""

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Runner:
    index: int
    log: Path
    node: str = ""
    begun: bool = False
    exit_code: int | None = None
    trouble: str = ""
    """Why the runner has no node or container, according to the cluster."""

    @property
    def runs(self) -> bool:
        return self.begun and self.exit_code is None

    def summary(self) -> dict | None:
        """Summary of the runner's k6; None if k6 wrote no summary."""
        return find_summary(self.log.read_text(errors="replace")) if self.log.exists() else None


@dataclass
class Ended:
    runners: list[Runner]
    complete: bool
    """Whether the runners' Job and the starter's Job both report success."""
    words: list[str] = field(default_factory=list)
    began: float | None = None
    """Start time of the runners in whole Unix seconds."""

    def reasons(self) -> list[str]:
        """Reason why a run failed; empty for a run that passed."""
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
    """k6's summary from a runner's log: the last line that starts with a JSON object with metrics.

    Later output of k6 may follow on the same line.
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
    """Waits until the Jobs have finished; by then, the folder contains the runners' logs."""
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
            # Stops waiting for missing runners, and stops those that could not start.
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
    """Writes a pod's log from its first line, because the pod may be deleted with a failed Job."""
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
    status = pod["status"]
    runner.node = pod["spec"].get("nodeName", runner.node)
    runner.trouble = ""
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            # Keep the first sentence, which names what the nodes lack. The other sentences describe
            # preemption.
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
    def __init__(self, items: list[dict]) -> None:
        self._jobs = {each["metadata"]["name"]: each for each in items if each["kind"] == "Job"}
        self._pods = [each for each in items if each["kind"] == "Pod"]

    def runners(self, job: str) -> list[dict]:
        return [
            pod
            for pod in self._pods
            if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job
        ]

    def verdict(self, job: str) -> bool | None:
        """Whether a Job has succeeded; None while it is running. A deleted Job has failed."""
        if job not in self._jobs:
            return False
        conditions = self._conditions(job)
        if "Complete" in conditions:
            return True
        return False if "Failed" in conditions else None

    def completed(self, job: str) -> float | None:
        at = self._jobs.get(job, {}).get("status", {}).get("completionTime")
        return datetime.fromisoformat(at).timestamp() if at else None

    def words(self, jobs: tuple[str, str]) -> list[str]:
        """Returns messages about failures from the Jobs, and from the pod that starts the runners."""
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
