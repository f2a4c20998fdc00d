"""Breaks parts of a kind cluster for real: processes by their ids on this machine, units of the node's systemd."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from infra.config.operator import KUEUE_NAMESPACE, OperatorApi
from infra.kueue.patches import CONTROLLER as KUEUE
from infra.objects.labels import OF_JOBSET
from infra.run.job_api import JOB_LABEL
from infra.trainer_controller.patches import JOBSET, TRAINER
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table.training import JOB

NAMESPACE = ("--namespace", "kubeflow")
# The Deployments of what makes pods of a job. Each has one pod, in the job's namespace.
OPERATORS = {OperatorApi.V1: ("training-operator",), OperatorApi.V2: (TRAINER, JOBSET)}
# In the order of their ranks.
REPLICAS = ("master", "worker")


def controllers(project: Project) -> dict[str, tuple[str, ...]]:
    """Namespace -> the Deployments there that start the job's pods, or admit the job."""
    found = {NAMESPACE[1]: OPERATORS[project.api]}
    return {**found, KUEUE_NAMESPACE: (KUEUE,)} if project.has_kueue else found


def node(project: Project) -> str:
    return f"{project.cluster}-control-plane"


def processes_of(project: Project, program: str) -> list[int]:
    """Ids, on this machine, of the node's processes whose first word ends with `program`."""
    listed = project.run("docker", "top", node(project), "-eo", "pid,args").stdout.splitlines()[1:]
    pairs = (line.split(None, 1) for line in listed)
    return [int(pid) for pid, command in pairs if command.split()[0].rpartition("/")[2] == program]


def kill(project: Project, program: str) -> None:
    """kill -9 of the node's only `program`."""
    (pid,) = processes_of(project, program)
    os.kill(pid, signal.SIGKILL)


def forget_restarts(project: Project) -> None:
    """Let the kubelet start what is killed next at once: it waits longer for what was killed a few minutes ago."""
    project.run("docker", "exec", node(project), "systemctl", "restart", "kubelet")
    ready = ("--for=condition=Ready", "node", node(project), "--timeout=300s")
    wait_until("the API server answers", lambda: api_answers(project))
    project.run("kubectl", "wait", *ready)


@contextmanager
def without_api_server(project: Project) -> Iterator[None]:
    """The API server is away inside; it answers again when the block has ended."""
    project.run("docker", "exec", node(project), "systemctl", "stop", "kubelet")
    try:
        kill(project, "kube-apiserver")
        wait_until("it is away", lambda: not api_answers(project))
        yield
    finally:
        forget_restarts(project)


def api_answers(project: Project) -> bool:
    asked = ("kubectl", "get", "--raw", "/readyz", "--request-timeout=2s")
    return project.run(*asked, check=False).returncode == 0


def pods_of(project: Project, replica: str) -> tuple[str, ...]:
    """Words that let kubectl find the pods of one of the job's two replicas, those that are replaced included."""
    if project.api is OperatorApi.V1:
        labels = f"{JOB_LABEL}={JOB},training.kubeflow.org/replica-type={replica}"
    else:
        labels = f"{OF_JOBSET}={JOB},batch.kubernetes.io/job-completion-index={REPLICAS.index(replica)}"
    return ("pods", "--selector", labels, *NAMESPACE)


def pod(project: Project, replica: str) -> dict[str, Any]:
    """The latest of this replica's pods; empty where there is none now."""
    done = project.run("kubectl", "get", *pods_of(project, replica), "--output=json", check=False)
    found = json.loads(done.stdout)["items"] if done.returncode == 0 else []
    return dict(max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]), default={}))


def pod_name(project: Project, replica: str) -> str:
    return str(pod(project, replica)["metadata"]["name"])


@contextmanager
def watched(project: Project, replica: str) -> Iterator[Callable[[], str]]:
    """Gives what the API server has told of the replica's pods since the block began, as JSON.

    A pod that has failed may be gone a second later: JobSet replaces it.
    """
    words = ["kubectl", "get", *pods_of(project, replica), "--watch", "--output=json"]
    with (
        tempfile.NamedTemporaryFile() as told,
        subprocess.Popen(words, env=project.environment(), stdout=told) as watching,
    ):
        try:
            wait_until("the watch has begun", lambda: Path(told.name).stat().st_size > 0)
            yield lambda: Path(told.name).read_text()
        finally:
            watching.kill()


def trainer(project: Project, replica: str) -> int:
    """Id, on this machine, of the process that trains in this replica's pod."""
    uid = pod(project, replica)["metadata"]["uid"]
    found = []
    for pid in processes_of(project, "python3"):
        with suppress(OSError):
            groups = Path(f"/proc/{pid}/cgroup").read_text().replace("_", "-")
            found += [pid] if uid in groups else []
    assert len(found) == 1, found
    return found[0]


def starts(project: Project, replica: str) -> tuple[str, int]:
    """Which start of the replica this is: the pod's uid, and how often its container was started again."""
    found = pod(project, replica)
    statuses = found.get("status", {}).get("containerStatuses") or [{}]
    return found.get("metadata", {}).get("uid", ""), int(statuses[0].get("restartCount", 0))


def starts_again(project: Project, replica: str, before: tuple[str, int]) -> None:
    """Return once the replica's start is another one than `before`."""

    def has_started() -> bool:
        now = starts(project, replica)
        return bool(now[0]) and now != before

    wait_until(f"{replica} is started again", has_started)


def delete_pod(project: Project, replica: str) -> None:
    project.run("kubectl", *NAMESPACE, "delete", "pod", pod_name(project, replica), "--wait=false")


def kill_trainer(project: Project, replica: str) -> None:
    os.kill(trainer(project, replica), signal.SIGKILL)


# 64 processes of 64 MiB each: more than any limit of the tests' jobs.
FILLER = """
import os, time
for _ in range(64):
    if os.fork() == 0:
        kept = b"x" * (1 << 26)
        time.sleep(60)
        os._exit(0)
    time.sleep(0.02)
time.sleep(60)
"""


def exhaust_memory(project: Project, replica: str) -> None:
    """Fill the container's memory, and let the kernel choose the trainer to be killed for it.

    It kills the largest process, and what a pod asks for counts little beside that: so many small ones fill the memory.
    """
    Path(f"/proc/{trainer(project, replica)}/oom_score_adj").write_text("1000")
    words = ("exec", pod_name(project, replica), "--", "python3", "-c", FILLER)
    with watched(project, replica) as told:
        project.run("kubectl", *NAMESPACE, *words, check=False)
        wait_until("the container ended", lambda: "OOMKilled" in told())


def moment(row: str, number: int | str) -> random.Random:
    """Random numbers of this try, the same whenever it is repeated."""
    return random.Random(f"{row} {number}")
