"""The recorded program on our plugin: same ids, inputs, outputs, diffs and findings as on the real one."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from functools import partial
from typing import Any

import pytest
import yaml
from pulumi_standins.kubernetes import field_managers
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import Kind, kind_of, name_of

from standins.tests import golden
from standins.tests.meanwhile import as_soon_as_possible
from standins.tests.project import CommandError, Project
from standins.tests.samples import MERGE_PATCH

pytestmark = pytest.mark.apiserver

KUBERNETES = "kubernetes:"
BOUND = "Bound"


def assert_state_as_recorded(project: Project, step: int) -> None:
    ours, recorded = project.state(), golden.states(step)
    assert ours.keys() == recorded.keys()
    for name, theirs in recorded.items():
        if not theirs["type"].startswith(KUBERNETES):
            continue
        our = ours[name]
        assert golden.comparable(our["id"]) == golden.comparable(theirs["id"])
        assert golden.inputs(our) == golden.inputs(theirs), f"inputs of {name}"
        assert golden.own_outputs(our) == golden.own_outputs(theirs), f"outputs of {name}"
        assert our.get("additionalSecretOutputs") == theirs.get("additionalSecretOutputs")


def drift(client: ApiClient) -> None:
    """What was done with kubectl before step 4 was recorded."""
    client.transport.request(
        "PATCH",
        "/apis/apps/v1/namespaces/golden/deployments/web/scale",
        query={"fieldManager": "kubectl"},
        body={"spec": {"replicas": 5}},
        content_type=MERGE_PATCH,
    )
    client.delete(Kind("", "v1", "ConfigMap"), "golden", "fixed-renamed", propagation="Background")
    client.transport.request(
        "PATCH",
        "/api/v1/namespaces/golden",
        query={"fieldManager": "kubectl-label"},
        body={"metadata": {"labels": {"added": "by-hand"}}},
        content_type=MERGE_PATCH,
    )


def test_the_recorded_steps_have_the_recorded_effects(project: Project, client: ApiClient) -> None:
    project.write(golden.program())
    assert golden.summary(project.preview()) == golden.changes(1)
    project.up()
    assert_state_as_recorded(project, 1)
    for step in (2, 3):
        project.configure("step", str(step))
        assert golden.summary(project.preview()) == golden.changes(step)
        project.up()
        assert_state_as_recorded(project, step)
    assert not golden.summary(project.preview()), "nothing changed, so nothing may differ"

    drift(client)
    refreshed = project.refresh()
    assert re.search(r"~ 1 updated\n\s+- 1 deleted", refreshed), refreshed
    assert project.state()["web"]["inputs"]["spec"]["replicas"] == 5
    assert "added" not in project.state()["ns"]["inputs"]["metadata"]["labels"]

    with pytest.raises(CommandError) as conflict:
        project.pulumi("preview", "--diff")
    for part in (
        "replicas: 5 => 2",
        'the Kubernetes API server reported that "golden/web" failed to fully initialize or become live',
        "server-side apply field conflict detected",
        'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas',
    ):
        assert part in conflict.value.output

    destroyed = project.destroy()
    assert "- 17 deleted" in destroyed


def opened(value: Any) -> Any:
    """With the one recorded secret, whose passphrase nobody has, as the program sets it."""
    if isinstance(value, dict) and "ciphertext" in value:
        return {"password": base64.b64encode(b"hunter2").decode()}
    if isinstance(value, dict):
        return {key.replace("x_kubernetes_", "x-kubernetes-"): opened(item) for key, item in value.items()}
    return [opened(item) for item in value] if isinstance(value, list) else value


def bring_to(client: ApiClient, step: int) -> None:
    """Make the objects behind a recorded state as the real plugin did: created, and applied where it says so."""
    for name, resource in golden.states(step).items():
        if not resource["type"].startswith(KUBERNETES):
            continue
        obj, manager = opened(resource["inputs"]), resource["outputs"]["__fieldManager"]
        if resource["type"].endswith("Patch"):
            as_soon_as_possible(partial(client.get, kind_of(obj), "golden", name_of(obj)))
            client.apply(obj, manager=manager, force=True)
            continue
        live = client.create(obj)
        if name == "crd":
            client.add_kinds_of(obj)
        recorded = resource["outputs"]["metadata"].get("managedFields") or []
        if any(entry["manager"] == manager and entry["operation"] == "Apply" for entry in recorded):
            field_managers.take_over(client, live, manager)
            client.apply(obj, manager=manager, force=False)
    for resource in golden.states(step).values():
        if (resource.get("outputs") or {}).get("status"):
            look = partial(recorded_conditions, client, resource)
            as_soon_as_possible(look, passing=(ApiError, LookupError))


def recorded_conditions(client: ApiClient, resource: dict[str, Any]) -> None:
    """Raises LookupError until the object is as far as the recorded one: a Job has ended, a claim has its volume."""

    def conditions(status: dict[str, Any]) -> set[tuple[str, str]]:
        return {(condition["type"], condition["status"]) for condition in status.get("conditions") or ()}

    obj = opened(resource["inputs"])
    live = client.get(kind_of(obj), obj["metadata"].get("namespace", ""), resource["id"].split("/")[-1])
    recorded, status = resource["outputs"]["status"], live.get("status") or {}
    missing = conditions(recorded) - conditions(status)
    if missing or (recorded.get("phase") == BOUND != status.get("phase")):
        raise LookupError(f"{resource['id']}: {missing or status}")


def remove(client: ApiClient) -> None:
    """Everything of the program, faster than by `destroy`: a young CRD keeps foreground deletions waiting 30 s."""
    for kind, name in (
        (Kind("", "v1", "Namespace"), "golden"),
        (Kind("", "v1", "PersistentVolume"), "golden-pv"),
        (Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "widgets.golden.example.com"),
    ):
        client.delete(kind, "", name, propagation="Background")
        until = time.monotonic() + 600
        gone = follow(client, kind, "", until=until, cancelled=threading.Event(), name=name)
        assert any(event == "DELETED" for event, _ in gone)


def importable(step: int, salt: str) -> str:
    """The recorded state as `pulumi stack import` takes it from somebody without its passphrase."""
    exported = json.loads((golden.FOLDER / f"{step}-state.json").read_text())
    deployment = exported["deployment"]
    deployment["secrets_providers"]["state"]["salt"] = salt
    deployment["resources"] = [r for r in deployment["resources"] if not r.get("delete")]
    text = json.dumps(exported)
    plaintext = json.dumps(json.dumps({"password": base64.b64encode(b"hunter2").decode()}))
    return re.sub(r'"ciphertext": "[^"]*"', lambda _: f'"plaintext": {plaintext}', text)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_recorded_state_is_taken_over_without_a_diff(
    project: Project, client: ApiClient, step: int
) -> None:
    """And what comes next is what the real plugin recorded next."""
    project.write(golden.program())
    project.configure("step", str(step))
    bring_to(client, step)
    salt = yaml.safe_load((project.folder / "Pulumi.g.yaml").read_text())["encryptionsalt"]
    (project.folder / "recorded.json").write_text(importable(step, salt))
    project.pulumi("stack", "import", "--file", "recorded.json")

    assert not golden.summary(project.preview()), "the same program on the recorded state"
    refreshed = project.refresh()
    assert "unchanged" in refreshed
    assert " updated" not in refreshed
    assert " deleted" not in refreshed
    assert not golden.summary(project.preview()), "and after a refresh"
    if step < 3:
        project.configure("step", str(step + 1))
        assert golden.summary(project.preview()) == golden.changes(step + 1)
        project.up()
        assert_state_as_recorded(project, step + 1)
        remove(client)
        return
    assert "- 18 deleted" in project.destroy()
    with pytest.raises(ApiError, match="not found"):
        client.get(Kind("", "v1", "Namespace"), "", "golden")


FAILING = """
import pulumi, pulumi_kubernetes as k8s
from pulumi import ResourceOptions as O, CustomTimeouts as T
p = k8s.Provider("cluster", kubeconfig="kubeconfig.yaml")
labels = {"app": "crash"}
def pod(outcome, **spec):
    container = {"name": "c", "image": "example/pause:1"}
    metadata = {"labels": labels, "annotations": {"test/outcome": outcome}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}
k8s.apps.v1.Deployment("crash", metadata={"name": "crash", "namespace": "default"},
    spec={"selector": {"matchLabels": labels}, "template": pod("fail")},
    opts=O(provider=p, custom_timeouts=T(create="SECONDSs")))
k8s.batch.v1.Job("fails", metadata={"name": "fails", "namespace": "default"},
    spec={"backoffLimit": 0, "template": pod("fail", restartPolicy="Never")}, opts=O(provider=p))
k8s.core.v1.ConfigMap("bad", metadata={"name": "Bad_Name", "namespace": "default"}, opts=O(provider=p))
"""


FINDINGS = (
    '::crash" was successfully created, but the Kubernetes API server reported that it failed to fully '
    "initialize or become live: 'crash' timed out waiting to be Ready",
    "[MinimumReplicasUnavailable] Deployment does not have minimum availability.",
    "Minimum number of live Pods was not attained",
    'containers with unready status: [c]container "c" completed with exit code 1',
    "Resource 'fails' was created but failed to initialize",
    "[BackoffLimitExceeded] ",
    '::bad" was not successfully created by the Kubernetes API server: ',
)


def test_findings_of_failed_creations_are_those_recorded(project: Project) -> None:
    for seconds in ("4", "30", "240"):  # how soon the controllers act is a matter of the machine
        project.write(FAILING.replace("SECONDS", seconds))
        with pytest.raises(CommandError) as failed:
            project.up()
        output = failed.value.output
        missing = [finding for finding in FINDINGS if finding not in output]
        if not missing:
            break
        project.destroy()
    assert not missing, output
    kept = project.state()
    assert kept["crash"]["id"] == "default/crash", "what timed out stays in the state"
    assert kept["crash"]["initErrors"]
    assert "bad" not in kept
    project.destroy()
