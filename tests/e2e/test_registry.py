"""No pod lists, pulls, pushes or deletes in the cluster's registry, nor finds the password of the nodes."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import ask_registry
from tests.e2e.images import pulled
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S

NAMESPACE = "registry-intruder"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def restricted(project: Project, up: dict[str, str]) -> Iterator[str]:
    """A namespace that lets in restricted pods only."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    apply(project, manifest)
    yield NAMESPACE
    project.run("kubectl", "delete", "namespace", NAMESPACE, "--wait=false")


def apply(project: Project, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = project.root / ".trainstack" / "applied.json"
    file.write_text(json.dumps(manifest))
    return project.run("kubectl", "apply", "--filename", str(file), check=False)


def pod(name: str, namespace: str, image: str, command: list[str], **more: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Always",  # the node asks the registry, also for what it has
        "command": command,
        "securityContext": RESTRICTED,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "containers": [container], **more},
    }


def images(project: Project) -> tuple[str, str]:
    """References of the trainer and of the operator."""
    operated = project.get("deployment", "training-operator")["spec"]["template"]["spec"]
    return pulled(project), operated["containers"][0]["image"]


def password(project: Project) -> str:
    return (project.root / ".trainstack" / "registry" / "password").read_text().strip()


def basic(project: Project) -> str:
    return base64.b64encode(f"trainstack:{password(project)}".encode()).decode()


def asked_with_the_password(project: Project, path: str) -> int:
    port = project.run("docker", "port", f"{project.cluster}-registry", "5000/tcp").stdout.split()[0]
    headers = {"Authorization": f"Basic {basic(project)}", "Accept": ask_registry.MANIFEST}
    with urllib.request.urlopen(
        urllib.request.Request(f"http://{port}/v2/{path}", headers=headers), timeout=60
    ) as answer:
        return int(answer.status)


def test_a_restricted_pod_gets_nothing_from_the_registry_and_puts_nothing_there(
    project: Project, restricted: str
) -> None:
    trainer, operator = images(project)
    place, _, digest = trainer.partition("@")
    address, _, repository = place.partition("/")
    operators = operator.partition("@")[0].removeprefix(f"{address}/")
    tried = ask_registry.attempts(repository, digest, operators, "latest")
    script = Path(ask_registry.__file__).read_text()
    words = ["python3", "-c", script, address, repository, digest, operators, "latest"]
    made = apply(project, pod("intruder", restricted, trainer, words))
    assert made.returncode == 0, made.stderr
    wait = ["pod/intruder", "--namespace", restricted, f"--timeout={HANG_S:.0f}s"]
    project.run(
        "kubectl", "wait", "--for=jsonpath={.status.phase}=Succeeded", *wait, timeout=2 * HANG_S, check=False
    )
    answers = json.loads(project.run("kubectl", "logs", "intruder", "--namespace", restricted).stdout)

    refused = ["401", 'Basic realm="trainstack"']
    assert answers == {name + known: refused for name in tried for known in ("", ", with a guess")}
    assert asked_with_the_password(project, tried["pull"][1]) == 200, "what the pod asked for is there"
    assert images(project) == (trainer, operator)


@pytest.mark.parametrize("namespace", [NAMESPACE, "kubeflow"])
def test_no_pod_mounts_the_folder_with_the_nodes_password(
    project: Project, restricted: str, namespace: str
) -> None:
    volume = {"name": "node", "hostPath": {"path": "/etc/containerd"}}
    made = apply(project, pod("reader", namespace, images(project)[0], ["true"], volumes=[volume]))
    assert made.returncode != 0
    assert "violates PodSecurity" in made.stderr


def test_the_password_is_in_no_object_of_the_cluster_and_in_no_state(project: Project) -> None:
    kinds = "pods,secrets,configmaps,serviceaccounts,events,deployments,pytorchjobs"
    objects = project.run("kubectl", "get", kinds, "--all-namespaces", "--output", "json").stdout
    exported = project.run("pulumi", "stack", "export", "--show-secrets", "--stack", project.stack).stdout
    node = f"{project.cluster}-control-plane"
    kept = project.run(
        "docker", "exec", node, "cat", f"/etc/containerd/certs.d/{project.cluster}-registry:5000/hosts.toml"
    ).stdout
    for secret in (password(project), basic(project)):
        for encoded in (secret, base64.b64encode(secret.encode()).decode()):
            assert encoded not in objects
            assert encoded not in exported
    assert basic(project) in kept, "else the test looks for the wrong word"


def test_nobody_but_root_reads_it_on_a_node(project: Project) -> None:
    folder = f"/etc/containerd/certs.d/{project.cluster}-registry:5000"
    node = f"{project.cluster}-control-plane"
    listed = project.run("docker", "exec", node, "stat", "--format", "%a %U", folder, f"{folder}/hosts.toml")
    assert listed.stdout.split("\n")[:2] == ["700 root", "600 root"]
