"""Jobs by the name of `stuck` that do not get on, each for another reason."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from infra.objects.labels import RUN
from tests.e2e.waiting import wait_until
from tests.runbooks.situations import GIVEN, JOB, Scene

NAME = "stuck"
WORKING = ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]


def apply(scene: Scene, *objects: dict[str, Any]) -> None:
    """`kubectl apply`, undone at the end should the runbook not come so far."""
    project = scene.project
    words = ["kubectl", "--namespace", "kubeflow", "apply", "--filename", "-"]
    text = yaml.safe_dump_all(objects)
    environment = project.environment()
    subprocess.run(words, input=text, text=True, check=True, env=environment, capture_output=True)
    delete = ["kubectl", "--namespace", "kubeflow", "delete", "--ignore-not-found"]
    for each in objects:
        name = each["metadata"]["name"]
        scene.cleanup.callback(project.run, *delete, each["kind"].lower(), name, check=False)


def job(
    scene: Scene, command: list[str] | None = None, image: str | None = None, cpu: str = "250m"
) -> dict[str, Any]:
    """A hand-written PyTorchJob with the stack's image, or another one; its pods are marked as those of a stack."""
    there = scene.project.get("pytorchjob", JOB)["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
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


def pods(scene: Scene) -> list[dict[str, Any]]:
    listed = scene.project.get("pods")["items"]
    label = "training.kubeflow.org/job-name"
    return [pod for pod in listed if pod["metadata"]["labels"].get(label) == NAME]


def waiting_for(scene: Scene, reason: str) -> bool:
    """Whether a container of the job waits for `reason`, or its last start did."""
    statuses = [
        status
        for pod in pods(scene)
        for kind in ("initContainerStatuses", "containerStatuses")
        for status in pod.get("status", {}).get(kind) or []
    ]
    return any((status.get("state", {}).get("waiting") or {}).get("reason") == reason for status in statuses)


def events(scene: Scene, text: str) -> bool:
    return any(text in event.get("message", "") for event in scene.project.get("events")["items"])


def pending(scene: Scene) -> None:
    """It asks for more CPUs than the node has."""
    apply(scene, job(scene, cpu="64"))
    wait_until("the scheduler has refused", lambda: events(scene, "Insufficient cpu"))


def init(scene: Scene) -> None:
    """Rank 0 runs and never listens; the other one waits for it."""
    apply(scene, job(scene, command=["sleep", "3600"]))
    wait_until("a worker waits", lambda: any(_waits_in_init(pod) for pod in pods(scene)))


def _waits_in_init(pod: dict[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("initContainerStatuses") or []
    return any("running" in status.get("state", {}) for status in statuses)


def crash(scene: Scene) -> None:
    """An option's value is wrong: the trainer ends at once, again and again."""
    apply(scene, job(scene, command=[*WORKING[:2], "--epochs=none"]))
    wait_until("the kubelet backs off", lambda: waiting_for(scene, "CrashLoopBackOff"))


def image_pull(scene: Scene) -> None:
    """The tag does not exist."""
    image = f"{scene.project.cluster}-registry:5000/trainstack/trainer:no-such-tag"
    apply(scene, job(scene, image=image))
    wait_until("the kubelet gives up for now", lambda: waiting_for(scene, "ImagePullBackOff"))


def dns(scene: Scene) -> None:
    """The cluster's DNS does not run."""
    coredns = ["deployment/coredns", "--namespace", "kube-system"]
    scene.project.run("kubectl", "scale", *coredns, "--replicas=0")
    scene.cleanup.callback(scene.project.run, "kubectl", "scale", *coredns, "--replicas=2", check=False)
    gone = ["--for=delete", "pod", "--selector", "k8s-app=kube-dns", "--namespace", "kube-system"]
    scene.project.run("kubectl", "wait", *gone, "--timeout=90s")
    apply(scene, job(scene))
    wait_until("a worker waits", lambda: any(_waits_in_init(pod) for pod in pods(scene)))


def quota(scene: Scene) -> None:
    """The namespace's quota has no pod left."""
    limit = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few-pods"},
        "spec": {"hard": {"pods": "1"}},
    }
    apply(scene, limit)
    apply(scene, job(scene))
    wait_until("a pod was refused", lambda: events(scene, "exceeded quota"))


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
