"""Breaks parts of a kind cluster for real: processes by their ids on this machine, units of the node's systemd."""

from __future__ import annotations

import json
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table.training import JOB


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


def api_answers(project: Project) -> bool:
    asked = ("kubectl", "get", "--raw", "/readyz", "--request-timeout=2s")
    return project.run(*asked, check=False).returncode == 0


def pod(project: Project, replica: str) -> dict[str, Any]:
    """The job's pod of this replica; empty where there is none now."""
    words = ("kubectl", "get", "pod", f"{JOB}-{replica}-0", "--namespace", "kubeflow", "--output=json")
    done = project.run(*words, check=False)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


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
    words = ("delete", "pod", f"{JOB}-{replica}-0", "--wait=false")
    project.run("kubectl", "--namespace", "kubeflow", *words)


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
    words = ("exec", f"{JOB}-{replica}-0", "--", "python3", "-c", FILLER)
    project.run("kubectl", "--namespace", "kubeflow", *words, check=False)
    wait_until("the container ended", lambda: "OOMKilled" in str(pod(project, replica).get("status")))


def moment(row: str, number: int | str) -> random.Random:
    """Random numbers of this try, the same whenever it is repeated."""
    return random.Random(f"{row} {number}")
