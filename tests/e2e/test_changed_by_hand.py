"""Somebody changes every object of a stack by hand: `make up` says what it finds, and sets it right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.objects.kinds import title
from tests.e2e.project import Project
from toolchain.operating import quick_drift

MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL: dict[str, Any] = {"metadata": {"labels": {MANAGED_BY: "somebody"}}}
# Kind -> a merge patch of fields that the stack has applied. Every kind of the stack is here. A label it is where the
# stack applies nothing else, or where the API server lets nobody change the rest.
EDITS: dict[str, dict[str, Any]] = {
    "Namespace": {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    "PersistentVolume": {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    "PersistentVolumeClaim": LABEL,
    "ValidatingAdmissionPolicy": {"spec": {"failurePolicy": "Ignore"}},
    "ValidatingAdmissionPolicyBinding": {"spec": {"validationActions": ["Audit"]}},
    "NetworkPolicy": {"spec": {"policyTypes": ["Ingress"]}},
    "CustomResourceDefinition": LABEL,
    "ServiceAccount": LABEL,
    "ClusterRole": {"rules": []},
    "ClusterRoleBinding": {"subjects": []},
    "Secret": LABEL,
    "ConfigMap": {"data": {"initContainer.yaml": "of somebody"}},
    "Service": {"spec": {"selector": {"control-plane": "somebody"}}},
    "ValidatingWebhookConfiguration": {"webhooks": []},
    "Deployment": {"spec": {"replicas": 2}},
    "PyTorchJob": {"spec": {"runPolicy": {"activeDeadlineSeconds": 77}}},
}
# Changed as a GitOps agent does it; the others as `kubectl edit` does.
APPLIED = {"Deployment", "Service"}


def applied(project: Project) -> Iterator[dict[str, Any]]:
    """The objects as the stack has applied them."""
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", "dev").stdout)
    for each in exported["deployment"]["resources"]:
        if each["type"].startswith("kubernetes:"):
            yield each["inputs"]


def address(manifest: dict[str, Any]) -> list[str]:
    """What kubectl takes for the object."""
    namespace = manifest["metadata"].get("namespace")
    there = ["--namespace", namespace] if namespace else []
    return [manifest["kind"].lower(), manifest["metadata"]["name"], *there]


def edit(project: Project, manifest: dict[str, Any], file: Path) -> None:
    """With `file` as room for a manifest."""
    kind, changes = manifest["kind"], EDITS[manifest["kind"]]
    if kind not in APPLIED:
        project.run("kubectl", "patch", *address(manifest), "--type=merge", "--patch", json.dumps(changes))
        return
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    file.write_text(
        json.dumps({"apiVersion": manifest["apiVersion"], "kind": kind, "metadata": metadata, **changes})
    )
    words = ("--server-side", "--force-conflicts", "--field-manager=somebody", "--filename", str(file))
    project.run("kubectl", "apply", *words)


def differing(project: Project, objects: list[dict[str, Any]], file: Path) -> list[str]:
    """The titles of those that are not as they were applied. With `file` as room for manifests."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    asked = ("kubectl", "get", "--filename", str(file), "--output", "json")
    live = json.loads(project.run(*asked).stdout)["items"]
    assert [*map(title, live)] == [*map(title, objects)]
    pairs = zip(objects, live, strict=True)
    return [title(applied) for applied, found in pairs if quick_drift.differences(applied, found)]


@pytest.mark.slow(
    reason="two looks and a repair; tests/matrix/test_changed_by_hand.py changes each kind in `make test`"
)
def test_make_up_says_what_it_finds_and_sets_it_right(project: Project, tmp_path: Path) -> None:
    project.stand_up()
    objects = list(applied(project))
    assert {each["kind"] for each in objects} == EDITS.keys(), "every kind of the stack has an edit"
    file = tmp_path / "objects.json"
    assert differing(project, objects, file) == []
    model = hashlib.sha256((project.models / "mnist_cnn.pt").read_bytes()).hexdigest()
    volumes = {each["metadata"]["uid"] for each in project.get("persistentvolumes")["items"]}
    for each in objects:
        edit(project, each, file)
    found = project.make("drift")
    assert found.returncode != 0
    lines = [line for line in found.stdout.splitlines() if line.startswith(("update: ", "replace: "))]
    for each in objects:
        kind, name = each["kind"], each["metadata"]["name"]
        assert [line for line in lines if f" {kind}/" in line and f"/{name} (" in line], (each, lines)

    trace = tmp_path / "trace.json"
    done = project.make("up", f"TRACE={trace}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "found changed in the cluster: " in done.stdout
    spans = [each["name"] for each in json.loads(trace.read_text())["traceEvents"] if each["ph"] == "X"]
    assert "pulumi up" in spans
    for each in objects:
        name = each["metadata"]["name"]
        assert [span for span in spans if f" {each['kind']} " in span and span.endswith(name)], (each, spans)
    assert differing(project, list(applied(project)), file) == []
    again = project.make("drift")
    assert again.returncode == 0, again.stdout
    assert hashlib.sha256((project.models / "mnist_cnn.pt").read_bytes()).hexdigest() == model
    assert {each["metadata"]["uid"] for each in project.get("persistentvolumes")["items"]} == volumes
