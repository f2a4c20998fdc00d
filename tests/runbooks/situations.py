"""What runbooks start from: each function brings about, in a clone whose stack is up, the trouble of its name."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from tests.e2e.processes import kill
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import cluster

REPLACE = "REPLACE_CLUSTER=yes"
JOB = "pytorch-simple"
ENFORCED = "pod-security.kubernetes.io/enforce"
TRAINING = {"dataset": "auto", "epochs": 1}
LONG_EPOCHS = 60
"""So many on digits take half a minute: time enough to look at a run, not to wait for it."""


@dataclass
class Rehearsal:
    """A clone, and what has to be done at the end of the rehearsal."""

    project: Project
    cleanup: ExitStack


def start_up(rehearsal: Rehearsal) -> subprocess.Popen[bytes]:
    """`make up` in another terminal; its output is the log `make-up.log` below .trainstack."""
    log = rehearsal.project.root / ".trainstack" / "make-up.log"
    return rehearsal.cleanup.enter_context(rehearsal.project.making("up", log=log))


def running(rehearsal: Rehearsal) -> subprocess.Popen[bytes]:
    """A long training is under way and has told its first accuracy."""
    project = rehearsal.project
    # Another seed each time: a run that is known goes on where it was.
    training = {**TRAINING, "digitsEpochs": LONG_EPOCHS, "seed": int(time.time())}
    project.configure({"trainstack:job": {"training": training}})
    started = start_up(rehearsal)

    def has_told() -> bool:
        assert started.poll() is None, (project.root / ".trainstack" / "make-up.log").read_text()
        command = ["kubectl", "logs", f"{JOB}-master-0", "--namespace", "kubeflow"]
        # In this order: a pod of that name belongs to the job before this one until this one runs.
        return fresh() and "accuracy=" in project.run(*command, check=False).stdout

    def fresh() -> bool:
        """The job before this one has succeeded; between the two there is none."""
        found = project.run(
            *("kubectl", "get", "pytorchjob", JOB, "--namespace", "kubeflow", "--output", "json"), check=False
        )
        return found.returncode == 0 and any(
            held["type"] == "Running" and held["status"] == "True"
            for held in json.loads(found.stdout).get("status", {}).get("conditions", [])
        )

    wait_until("the training runs", has_told)
    return started


def two_runs(rehearsal: Rehearsal) -> None:
    """An earlier run with other options has left its results beside those of the present one."""
    runs = rehearsal.project.models / "runs"
    finished = [run for run in runs.iterdir() if (run / "mnist_cnn.pt").exists() and run.name.startswith(JOB)]
    if len(finished) < 2:
        committed = rehearsal.project.stack_file.read_text()
        rehearsal.project.configure(
            {"trainstack:job": {"training": {**TRAINING, "digitsEpochs": 12, "seed": 2}}}
        )
        rehearsal.project.up()
        rehearsal.project.stack_file.write_text(committed)
        rehearsal.project.up()


def killed_up(rehearsal: Rehearsal) -> None:
    """kill -9 of a `make up` while its job trains: the lock and pending operations stay."""
    kill(running(rehearsal))


def cluster_deleted(rehearsal: Rehearsal) -> None:
    """Somebody deletes the kind cluster by hand."""
    rehearsal.project.run("kind", "delete", "cluster", "--name", rehearsal.project.cluster)


def claim_deleted(rehearsal: Rehearsal) -> None:
    """Somebody deletes the job and then the claim; the volume stays behind, Released."""
    kubectl = ["kubectl", "--namespace", "kubeflow", "delete", "--wait", "--timeout=60s"]
    rehearsal.project.run(*kubectl, "pytorchjob", JOB)
    rehearsal.project.run(*kubectl, "pvc", f"trainstack-{rehearsal.project.stack}-models")


def drifted(rehearsal: Rehearsal) -> None:
    """Somebody lets the namespace's pods do more, and deletes the finished job."""
    label = ["kubectl", "label", "namespace", "kubeflow", "--overwrite"]
    rehearsal.project.run(*label, f"{ENFORCED}=privileged")
    rehearsal.project.run("kubectl", "--namespace", "kubeflow", "delete", "--timeout=60s", "pytorchjob", JOB)


def operator_down(rehearsal: Rehearsal) -> None:
    """Somebody has taken the operator's pods away."""
    command = ["kubectl", "--namespace", "kubeflow"]
    rehearsal.project.run(*command, "scale", "--replicas=0", "deployment/training-operator")
    pods = [
        *command,
        "get",
        "pods",
        "--selector",
        "control-plane=kubeflow-training-operator",
        "--output",
        "name",
    ]
    wait_until("its pods are gone", lambda: not rehearsal.project.run(*pods).stdout.strip())


def api_server_away(rehearsal: Rehearsal) -> None:
    """The API server is away, and its node does not start it again by itself."""
    project = rehearsal.project
    project.run("docker", "exec", cluster.node(project), "systemctl", "stop", "kubelet")
    cluster.kill(project, "kube-apiserver")
    wait_until("it is away", lambda: not cluster.api_answers(project))


def another_stack(rehearsal: Rehearsal) -> None:
    """The clone knows a second of its committed stacks, which was never up."""
    stack = ["pulumi", "stack", "--non-interactive"]
    rehearsal.cleanup.callback(rehearsal.project.run, *stack, "rm", "existing", "--yes", "--preserve-config")
    rehearsal.project.run(*stack, "init", "existing", "--no-select")


def locked(rehearsal: Rehearsal) -> None:
    """A colleague's `pulumi refresh` works on the stack and takes its time."""
    project = rehearsal.project
    refresh = ["pulumi", "refresh", "--yes", "--non-interactive", "--stack", project.stack]
    started = subprocess.Popen(
        refresh,
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    rehearsal.cleanup.callback(kill, started)
    wait_until("the lock is there", project.is_locked)
    os.kill(started.pid, signal.SIGSTOP)


def unlocked(rehearsal: Rehearsal) -> None:
    """The command that worked on the stack has ended."""
    wait_until("the lock is gone", lambda: not rehearsal.project.is_locked())


def disk_full(rehearsal: Rehearsal) -> None:
    """An old run has taken all the space there was, and the next training differs from the last."""
    project = rehearsal.project
    old = project.models / "runs" / f"{JOB}-00000000"
    old.mkdir()
    (old / "mnist_cnn.pt").write_bytes((project.models / "mnist_cnn.pt").read_bytes())
    (old / "checkpoint.pt").touch()
    with suppress(OSError), (old / "checkpoint.previous.pt").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
    project.configure({"trainstack:job": {"training": {**TRAINING, "digitsEpochs": 12, "seed": 3}}})


def older_operator(rehearsal: Rehearsal) -> None:
    """The operator's version before this one is pinned, committed and up."""
    folder = rehearsal.project.root / "toolchain" / "tools" / "go" / "training-operator"
    upstream = rehearsal.project.root / "infra" / "upstream"
    with committed(rehearsal):
        move = ["git", "mv", "training-operator-1.9.3", "training-operator-1.9.2"]
        subprocess.run(move, cwd=upstream, check=True)
        get = ["go", "get", "github.com/kubeflow/training-operator@v1.9.2"]
        subprocess.run(get, cwd=folder, check=True, capture_output=True)


def older_kubernetes(rehearsal: Rehearsal) -> None:
    """The Kubernetes before this one is pinned, committed and up."""
    folder = rehearsal.project.root / "toolchain" / "tools" / "go" / "kubernetes"
    with committed(rehearsal):
        pins = folder / "go.mod"
        pins.write_text(re.sub(r"v([01])\.34\.4\b", r"v\1.34.3", pins.read_text()))
        sums = ["go", "list", "-mod=mod", "-deps", "./...", "tool"]
        subprocess.run(sums, cwd=folder, check=True, capture_output=True)


@contextmanager
def committed(rehearsal: Rehearsal) -> Iterator[None]:
    """What the body changes is committed and brought up, older node image included; taken back at the end."""
    project = rehearsal.project
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-C", str(project.root)]
    yield
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "older"], check=True)
    rehearsal.cleanup.callback(project.up, REPLACE)
    rehearsal.cleanup.callback(subprocess.run, [*git, "reset", "--quiet", "--hard", "HEAD~1"], check=True)
    project.up(REPLACE)


GIVEN: dict[str, Callable[[Rehearsal], object]] = {
    "running": running,
    "two-runs": two_runs,
    "killed-up": killed_up,
    "cluster-deleted": cluster_deleted,
    "claim-deleted": claim_deleted,
    "drifted": drifted,
    "operator-down": operator_down,
    "api-server-away": api_server_away,
    "another-stack": another_stack,
    "locked": locked,
    "unlocked": unlocked,
    "disk-full": disk_full,
    "older-operator": older_operator,
    "older-kubernetes": older_kubernetes,
}
