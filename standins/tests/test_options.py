"""Resource options and provider arguments, through the real CLI: one program in steps."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.kubelet import POD
from standins.tests.project import CommandError, Project
from standins.tests.samples import MERGE_PATCH

pytestmark = pytest.mark.apiserver

CONFIG_MAP = Kind("", "v1", "ConfigMap")

PROGRAM = """
import pulumi, pulumi_kubernetes as k8s
from pulumi import ResourceOptions as O
step = pulumi.Config().get_int("step") or 1
N = pulumi.Config().require("namespace")
p = k8s.Provider("cluster", kubeconfig="kubeconfig.yaml", namespace=N)
CM = k8s.core.v1.ConfigMap
def cm(name, data, labels=None, fixed=True, **options):
    metadata = {"name": name} if fixed else {}
    return CM(name, metadata={**metadata, "labels": labels or {"step": "1"}}, data=data, opts=O(provider=p, **options))
s = str(step)
cm("ignored", {"a": "1"}, labels={"step": s}, ignore_changes=["metadata.labels.step"])
cm("pressed", {"a": "1"}, labels={"step": s}, replace_on_changes=["metadata.labels.step"])
if step == 1:
    cm("retained", {"a": "1"}, retain_on_delete=True)
    cm("old-name", {"a": "1"})
else:
    cm("new-name-fixed", {"a": "1"}, labels={"step": s})
    CM("new-name", metadata={"name": "old-name", "labels": {"step": "1"}}, data={"a": "1"},
       opts=O(provider=p, aliases=[pulumi.Alias(name="old-name")]))
cm("guarded", {"a": "1"}, protect=step == 1)
first = cm("first", {"a": s}, fixed=False)
second = cm("second", {"a": s}, fixed=False)
cm("rebuilt", {"a": s}, fixed=False, delete_before_replace=True)
secret = cm("secret", {"a": pulumi.Output.secret("hunter2"), "b": "open"})
cm("follows", {"first": first.metadata.name})
if step == 3:
    CM("imported", metadata={"name": "by-hand"}, data={"x": "y"}, opts=O(provider=p, import_=f"{N}/by-hand"))
pulumi.export("first", first.metadata.name)
"""


def labels(client: ApiClient, namespace: str, name: str) -> dict[str, str]:
    found: dict[str, str] = client.get(CONFIG_MAP, namespace, name)["metadata"]["labels"]
    return found


def test_options_do_what_they_say(project: Project, client: ApiClient, namespace: str) -> None:
    project.write(PROGRAM)
    project.configure("namespace", namespace)
    project.up()
    state = project.state()
    assert state["ignored"]["id"] == f"{namespace}/ignored", "the provider's namespace is the default"
    assert "hunter2" not in project.pulumi("stack", "export")
    assert state["secret"]["inputs"]["data"]["b"] == "open", "one secret leaf leaves its neighbours readable"

    project.configure("step", "2")
    with pytest.raises(CommandError, match="protected"):
        project.pulumi("destroy", "--yes", "--skip-preview", "--target", state["guarded"]["urn"])
    targeted = project.up("--target", state["first"]["urn"])
    assert "+-1 replaced" in targeted
    assert project.state()["second"]["inputs"]["data"] == {"a": "1"}, "not targeted, not touched"
    steps = {s["urn"].split("::")[-1]: s["op"] for s in project.preview() if s["op"] != "same"}
    assert steps["pressed"] == "replace"
    assert "ignored" not in steps
    assert "new-name" not in steps, "an alias keeps the object"
    shown = project.up().splitlines()
    firsts = {name: next(line for line in shown if f" {name} " in line) for name in ("rebuilt", "second")}
    assert "deleting original" in firsts["rebuilt"], "deleteBeforeReplace, though its name would not need it"
    assert "creating replacement" in firsts["second"]
    assert labels(client, namespace, "ignored") == {"step": "1"}
    assert labels(client, namespace, "pressed") == {"step": "2"}
    assert client.get(CONFIG_MAP, namespace, "retained"), "retained in the cluster, gone from the state"
    assert "retained" not in project.state()

    by_hand = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}
    client.create({**by_hand, "metadata": {"name": "by-hand", "namespace": namespace}})
    project.configure("step", "3")
    assert "= 1 imported" in project.up()
    path = f"/api/v1/namespaces/{namespace}/configmaps/by-hand"
    client.transport.request("PATCH", path, body={"data": {"x": "z"}}, content_type=MERGE_PATCH)
    assert "~ 1 updated" in project.refresh(), "a change behind our back shows"
    assert not [s for s in project.preview() if s["urn"].endswith("first") and s["op"] != "same"]
    project.destroy()
    with pytest.raises(ApiError):
        client.get(CONFIG_MAP, namespace, "by-hand")


REPLACED = """
import pulumi, pulumi_kubernetes as k8s
o = pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="kubeconfig.yaml"))
for name in ("one", "two", "three"):
    k8s.core.v1.ConfigMap(name, metadata={"name": name, "namespace": "NAMESPACE"}, data={"a": "VALUE"}, opts=o)
"""


def test_a_preview_says_of_each_replacement_that_the_old_object_is_there(
    project: Project, namespace: str
) -> None:
    program = REPLACED.replace("NAMESPACE", namespace)
    project.write(program.replace("VALUE", "1"))
    project.up()
    project.write(program.replace("VALUE", "2"))
    shown = project.pulumi("preview", "--diff")
    for name in ("one", "two", "three"):
        assert f'Retry #0; creation failed: configmaps "{name}" already exists' in shown
    project.destroy()


NEVER_READY = """
import pulumi, pulumi_kubernetes as k8s
labels = {"app": "it"}
template = {"metadata": {"labels": labels, "annotations": {"test/outcome": "unschedulable"}},
            "spec": {"containers": [{"name": "c", "image": "example/app:1"}]}}
p = k8s.Provider("cluster", kubeconfig="kubeconfig.yaml")
k8s.apps.v1.Deployment("it", metadata={"name": "it", "namespace": "NAMESPACE"},
    spec={"selector": {"matchLabels": labels}, "template": template}, opts=pulumi.ResourceOptions(provider=p))
"""


def is_unschedulable(client: ApiClient, namespace: str) -> bool:
    """Whether the pod is there and marked so: then the plugin waits. Pulumi may show it a good while later."""
    pods = client.list(POD, namespace)["items"]
    return any(each.get("status", {}).get("conditions") for each in pods)


def test_interrupting_ends_the_wait_and_keeps_the_state_right(
    project: Project, client: ApiClient, namespace: str
) -> None:
    project.write(NEVER_READY.replace("NAMESPACE", namespace))
    running = subprocess.Popen(
        ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--color=never"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while not is_unschedulable(client, namespace):
            assert running.poll() is None, running.communicate()[0]
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        output = running.communicate(timeout=1200)[0]  # twice as long as the wait that has to end
        assert "cancel" in output
        assert "timed out" not in output
    finally:
        if running.poll() is None:
            running.kill()
    kept = project.state()["it"]
    assert kept["id"] == f"{namespace}/it"
    assert kept["initErrors"]
    project.destroy()
    with pytest.raises(ApiError):
        client.get(Kind("apps", "v1", "Deployment"), namespace, "it")
