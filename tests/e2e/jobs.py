"""The jobs of either API in a project's cluster: what a test asks of them, and the little in which they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.config.operator import OperatorApi
from infra.job.queue import SUSPEND
from infra.objects import job_kinds
from infra.objects.job_kinds import JOBSET, RUNTIME, TRAINER_GROUP, JobKind
from infra.objects.labels import OF_JOBSET
from tests.e2e import tally
from tests.e2e.project import JOB_LABEL, Project
from tests.e2e.waiting import HANG_S, Until, while_running


@dataclass(frozen=True)
class Differences:
    """What a test has to know of one API.

    Parameters:
        label: of a job's pods, with the job's name.
        worker: what the name of rank 1's pod begins with, behind the job's.
        generated: whether Kubernetes adds a part to the name of each start's pod.
        made: kinds that the controllers make of a job, besides pods and services.
        limit: how a job says that it has been started again as often as it may.
    """

    label: str
    worker: str
    generated: bool
    made: tuple[str, ...]
    limit: str


OF_API = {
    OperatorApi.V1: Differences(JOB_LABEL, "worker-0", False, (), "reached the specified backoff limit"),
    OperatorApi.V2: Differences(
        OF_JOBSET,
        "node-0-1-",
        True,
        (f"{RUNTIME.lower()}s.{TRAINER_GROUP}", JOBSET.resource, "jobs.batch", "configmaps"),
        "reaching max number of restarts",
    ),
}


@dataclass(frozen=True)
class Jobs:
    """The jobs of `project` under one API."""

    project: Project
    api: OperatorApi

    @property
    def kind(self) -> JobKind:
        return job_kinds.OF_API[self.api]

    @property
    def differences(self) -> Differences:
        return OF_API[self.api]

    def named(self, name: str) -> str:
        """A job's name that is no other API's: a run that has finished under one would not be trained again."""
        return f"{name}-{self.api}"

    def ask(self, **job: Any) -> None:
        """Write the API and keys of the job into the stack file."""
        self.project.configure({"trainstack:operator": {"api": self.api.value}, "trainstack:job": job})

    def live(self, name: str) -> dict[str, Any]:
        return self.project.get(self.kind.resource, name)

    def uid(self, name: str) -> str:
        return str(self.live(name)["metadata"]["uid"])

    def failure(self, name: str) -> str:
        """How `make up` begins to say that the job has failed."""
        return f"{self.kind.kind} kubeflow/{name} failed"

    def pods(self, name: str) -> list[dict[str, Any]]:
        selector = f"{self.differences.label}={name}"
        words = ("get", "pods", "--namespace", "kubeflow", "--selector", selector, "--output", "json")
        return list(json.loads(self.project.run("kubectl", *words).stdout)["items"])

    def starts_of(self, name: str) -> set[str]:
        """The uids of the pods that are there: a replica that is started by another pod has another one."""
        return {pod["metadata"]["uid"] for pod in self.pods(name)}

    def worker(self, name: str) -> str:
        """The name of rank 1's pod."""
        names = [pod["metadata"]["name"] for pod in self.pods(name)]
        (found,) = [each for each in names if each.startswith(f"{name}-{self.differences.worker}")]
        return str(found)

    def replicas(self, name: str) -> tuple[str, str]:
        """The names of the job's two replicas, by rank."""
        first, second = ("node-0-0", "node-0-1") if self.differences.generated else ("master-0", "worker-0")
        return f"{name}-{first}", f"{name}-{second}"

    def tries(self, name: str) -> dict[str, int]:
        """Replica -> how often its container was started, as the kubelet tells, also of pods that are gone."""
        counted: Counter[str] = Counter()
        for event in self.project.get("events")["items"]:
            about = event["involvedObject"]
            trains = about.get("fieldPath") == f"spec.containers{{{self.kind.container}}}"
            if event["reason"] == "Started" and trains and about["name"].startswith(f"{name}-"):
                pod = about["name"]
                replica = pod.rpartition("-")[0] if self.differences.generated else pod
                counted[replica] += int(event.get("count") or 1)
        return dict(counted)

    def traces(self, name: str) -> set[str]:
        """`<kind>/<name>` of the job and of everything that its controllers have made of it."""
        kinds = ",".join((self.kind.resource, *self.differences.made, "pods", "services"))
        listed = self.project.run("kubectl", "get", kinds, "--namespace", "kubeflow", "--output", "name")
        names = {each: each.rpartition("/")[2] for each in listed.stdout.split()}
        return {each for each, own in names.items() if own == name or own.startswith(f"{name}-")}

    def hold(self, name: str, held: bool) -> None:
        """Suspend the job, or let it run, past the stack file."""
        patch: Any = held
        for key in reversed(SUSPEND[self.kind.kind].split(".")):
            patch = {key: patch}
        words = ("--namespace", "kubeflow", "--type=merge", "--patch", json.dumps(patch))
        self.project.run("kubectl", "patch", self.kind.resource, name, *words)

    @contextmanager
    def training(self, name: str, folder: Path) -> Iterator[Training]:
        """`make up` whose job trains with the tally; the block has it come to its end."""
        log = folder / "up.log"
        with self.project.making("up", log=log) as making:
            run = Training(self.project, name, while_running(making, log))
            run.advances()
            yield run
            assert making.poll() is None, log.read_text()
            tally.hurry(self.project)
            assert making.wait(HANG_S) == 0, log.read_text()
        assert tally.is_whole(tally.last(self.project, name)), tally.last(self.project, name)


@dataclass(frozen=True)
class Training:
    """A `make up` that waits for a job.

    Parameters:
        until: waits for what its second argument finds; an AssertionError with the log where `make up` ends before.
    """

    project: Project
    name: str
    until: Until

    def advances(self) -> None:
        """Return once the run has taken some more steps."""
        taken = tally.steps(self.project, self.name)
        self.until("the replicas train", lambda: tally.steps(self.project, self.name) >= taken + 4)
