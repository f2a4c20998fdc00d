"""Jobs by the name of `stuck` that do not get on, each for another reason."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from infra.objects.labels import RUN
from tests.e2e.waiting import wait_until
from tests.runbooks.situations import GIVEN, JOB, Rehearsal

NAME = "stuck"
WORKING = ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]


def apply(rehearsal: Rehearsal, *objects: dict[str, Any]) -> None:
    """`kubectl apply`, undone at the end should the runbook not come so far."""
    project = rehearsal.project
    words = ["kubectl", "--namespace", "kubeflow", "apply", "--filename", "-"]
    text = yaml.safe_dump_all(objects)
    environment = project.environment()
    subprocess.run(words, input=text, text=True, check=True, env=environment, capture_output=True)
    delete = ["kubectl", "--namespace", "kubeflow", "delete", "--ignore-not-found"]
    for each in objects:
        name = each["metadata"]["name"]
        rehearsal.cleanup.callback(project.run, *delete, each["kind"].lower(), name, check=False)


def job(
    rehearsal: Rehearsal, command: list[str] | None = None, image: str | None = None, cpu: str = "250m"
) -> dict[str, Any]:
    """A hand-written PyTorchJob with the stack's image, or another one; its pods are marked as those of a stack."""
    there = rehearsal.project.get("pytorchjob", JOB)["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    container = {
        "name": "pytorch",
        "image": image or there["spec"]["containers"][0]["image"],
        "command": command or WORKING,
        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
    }
    replica = {
        "replicas": 1,
        "restartPolicy": "OnFailure",
        "template": {"metadata": {"labels": {RUN: NAME}}, "spec": {"containers": [container]}},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": NAME},
        "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }


def pods(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    listed = rehearsal.project.get("pods")["items"]
    label = "training.kubeflow.org/job-name"
    return [pod for pod in listed if pod["metadata"]["labels"].get(label) == NAME]


def waiting_for(rehearsal: Rehearsal, reason: str) -> bool:
    """Whether a container of the job waits for `reason`, or its last start did."""
    statuses = [
        status
        for pod in pods(rehearsal)
        for kind in ("initContainerStatuses", "containerStatuses")
        for status in pod.get("status", {}).get(kind) or []
    ]
    return any((status.get("state", {}).get("waiting") or {}).get("reason") == reason for status in statuses)


def events(rehearsal: Rehearsal, text: str) -> bool:
    return any(text in event.get("message", "") for event in rehearsal.project.get("events")["items"])


def pending(rehearsal: Rehearsal) -> None:
    """It asks for more CPUs than the node has."""
    apply(rehearsal, job(rehearsal, cpu="64"))
    wait_until("the scheduler has refused", lambda: events(rehearsal, "Insufficient cpu"))


def init(rehearsal: Rehearsal) -> None:
    """Rank 0 runs and never listens; the other one waits for it."""
    apply(rehearsal, job(rehearsal, command=["sleep", "3600"]))
    wait_until("a worker waits", lambda: any(_waits_in_init(pod) for pod in pods(rehearsal)))


def _waits_in_init(pod: dict[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("initContainerStatuses") or []
    return any("running" in status.get("state", {}) for status in statuses)


def crash(rehearsal: Rehearsal) -> None:
    """An option's value is wrong: the trainer ends at once, again and again."""
    apply(rehearsal, job(rehearsal, command=[*WORKING[:2], "--epochs=none"]))
    wait_until("the kubelet backs off", lambda: waiting_for(rehearsal, "CrashLoopBackOff"))


def image_pull(rehearsal: Rehearsal) -> None:
    """The tag does not exist."""
    image = f"{rehearsal.project.cluster}-registry:5000/trainstack/trainer:no-such-tag"
    apply(rehearsal, job(rehearsal, image=image))
    wait_until("the kubelet gives up for now", lambda: waiting_for(rehearsal, "ImagePullBackOff"))


def dns(rehearsal: Rehearsal) -> None:
    """The cluster's DNS does not run."""
    coredns = ["deployment/coredns", "--namespace", "kube-system"]
    rehearsal.project.run("kubectl", "scale", *coredns, "--replicas=0")
    rehearsal.cleanup.callback(
        rehearsal.project.run, "kubectl", "scale", *coredns, "--replicas=2", check=False
    )
    gone = ["--for=delete", "pod", "--selector", "k8s-app=kube-dns", "--namespace", "kube-system"]
    rehearsal.project.run("kubectl", "wait", *gone, "--timeout=90s")
    apply(rehearsal, job(rehearsal))
    wait_until("a worker waits", lambda: any(_waits_in_init(pod) for pod in pods(rehearsal)))


def quota(rehearsal: Rehearsal) -> None:
    """The namespace's quota has no pod left."""
    limit = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few-pods"},
        "spec": {"hard": {"pods": "1"}},
    }
    apply(rehearsal, limit)
    apply(rehearsal, job(rehearsal))
    wait_until("a pod was refused", lambda: events(rehearsal, "exceeded quota"))


GIVEN.update(
    {
        "stuck-pending": pending,
        "stuck-init": init,
        "stuck-crash": crash,
        "stuck-image": image_pull,
        "stuck-dns": dns,
        "stuck-quota": quota,
    }
)
