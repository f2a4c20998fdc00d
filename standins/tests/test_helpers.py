"""The SDK's yaml and kustomize helpers, which need the provider's own calls, and its components."""

from __future__ import annotations

import base64
import re

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.project import Project

pytestmark = pytest.mark.apiserver

PLACES = ("data", "annotation", "list", "whole", "text", "all", "items", "listed")

MANIFEST = """
apiVersion: {group}/v1
kind: Thing
metadata: {{name: it, namespace: {namespace}}}
since: 2026-01-01
---
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
# an empty document
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {{name: listed, namespace: {namespace}}}
  data: {{a: "1"}}
- apiVersion: v1
  kind: Secret
  metadata: {{name: token, namespace: {namespace}}}
  stringData: {{password: hunter2}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: things, singular: thing, kind: Thing}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""

V2 = """
import pulumi, pulumi_kubernetes as k8s
o = pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="kubeconfig.yaml"))
group = k8s.yaml.v2.ConfigGroup("group", yaml=open("manifest.yaml").read(), opts=o)
k8s.yaml.v2.ConfigFile("file", file="file.yaml", opts=o)
k8s.kustomize.v2.Directory("kustomized", directory="kustomization", opts=o)
pulumi.export("count", group.resources.apply(lambda made: len(made)))
"""

V1 = """
import pulumi, pulumi_kubernetes as k8s
o = pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="kubeconfig.yaml"))
k8s.yaml.ConfigFile("file", file="file.yaml", opts=o)
k8s.kustomize.Directory("kustomized", directory="kustomization", opts=o)
"""


def write_manifests(project: Project) -> None:
    folder = project.folder
    (folder / "manifest.yaml").write_text(MANIFEST.format(group="v2.example.com", namespace="manifests"))
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-file}\ndata: {a: '1'}\n"
    (folder / "file.yaml").write_text(config_map)
    kustomization = folder / "kustomization"
    kustomization.mkdir()
    (kustomization / "cm.yaml").write_text(config_map.replace("from-file", "base"))
    (kustomization / "kustomization.yaml").write_text("resources: [cm.yaml]\nnamePrefix: customised-\n")


def test_components_register_their_objects_in_order(project: Project) -> None:
    write_manifests(project)
    project.write(V2)
    project.up()
    state = project.state()
    assert {
        "group:manifests/it",
        "group:manifests",
        "group:manifests/listed",
        "group:manifests/token",
        "group:things.v2.example.com",
        "file:default/from-file",
        "kustomized:default/customised-base",
    } <= state.keys(), state.keys()
    thing = state["group:manifests/it"]
    assert thing["parent"].endswith("kubernetes:yaml/v2:ConfigGroup::group")
    assert {urn.split("::")[-1] for urn in thing["dependencies"]} == {
        "group:manifests",
        "group:things.v2.example.com",
    }
    assert thing["inputs"]["since"] == "2026-01-01"
    assert "hunter2" not in str(project.pulumi("stack", "export"))
    assert not [step for step in project.preview() if step["op"] != "same"]
    project.destroy()
    assert not project.state()


def test_the_first_version_of_the_helpers_decodes_through_the_provider(project: Project) -> None:
    write_manifests(project)
    project.write(V1)
    project.up()
    state = project.state()
    names = {r["id"] for r in state.values() if r["type"] == "kubernetes:core/v1:ConfigMap"}
    assert names == {"default/from-file", "default/customised-base"}
    project.destroy()


KEPT = """
import pulumi, pulumi_kubernetes as k8s
p = k8s.Provider("cluster", kubeconfig="kubeconfig.yaml")
def options(**more):
    return pulumi.ResourceOptions(provider=p, **more)
def obj(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "NAMESPACE"}}
other = k8s.core.v1.ConfigMap("other", metadata={"name": "other", "namespace": "NAMESPACE"}, opts=options())
k8s.yaml.v2.ConfigGroup("group", objs=[obj("retained")], opts=options(retain_on_delete=True))
k8s.yaml.v2.ConfigGroup("with", objs=[obj("with-other")], opts=options(deleted_with=other))
k8s.yaml.v2.ConfigGroup("plain", objs=[obj("deleted")], opts=options())
k8s.yaml.v2.ConfigFile("file", file="file.yaml", opts=options(retain_on_delete=True))
k8s.kustomize.v2.Directory("kustomized", directory="kustomization", opts=options(retain_on_delete=True))
"""


def test_what_components_keep_is_not_deleted(project: Project, client: ApiClient, namespace: str) -> None:
    """`retainOnDelete` and `deletedWith` of a component are those of its objects."""
    write_manifests(project)
    project.write(KEPT.replace("NAMESPACE", namespace))
    project.up()
    project.destroy()
    kind = Kind("", "v1", "ConfigMap")
    for name in ("retained", "with-other"):
        assert client.find(kind, namespace, name) is not None, name
    for name in ("other", "deleted"):
        assert client.find(kind, namespace, name) is None, name
    for name in ("from-file", "customised-base"):
        assert client.find(kind, "default", name) is not None, name
        client.delete(kind, "default", name, propagation="Background")


SECRETS = """
import pulumi, pulumi_kubernetes as k8s
o = pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="kubeconfig.yaml"))
def obj(name, kind="ConfigMap", **fields):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}
def secret(value):
    return pulumi.Output.secret(value)
annotated = obj("in-annotation", data={"open": "readable"})
annotated["metadata"]["annotations"] = {"example.com/token": secret("planted-in-annotation")}
# In a list, as environment variables are.
template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
    {"name": "c", "image": "example/app:1", "env": [{"name": "TOKEN", "value": secret("planted-in-list")}]}]}}
k8s.yaml.v2.ConfigGroup("group", opts=o, objs=[
    obj("in-data", data={"password": secret("planted-in-data"), "open": "readable"}),
    annotated,
    obj("in-list", kind="PodTemplate", template=template),
    secret(obj("whole", data={"password": "planted-in-whole"})),
    obj("in-secret", kind="Secret", stringData={"password": "planted-in-secret"}),
    {"apiVersion": "v1", "kind": "List", "items": [obj("in-items", data={"password": secret("planted-in-items")})]},
    {"apiVersion": "v1", "kind": "List", "items": secret([obj("listed", data={"password": "planted-in-listed"})])},
])
text = "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: NAME, namespace: default}\\n"
text += "data: {password: planted-in-NAME}\\n"
k8s.yaml.v2.ConfigGroup("texts", opts=o, yaml=secret(text.replace("NAME", "text")))
k8s.yaml.v2.ConfigGroup("objects", opts=o, objs=secret([obj("in-all", data={"password": "planted-in-all"})]))
"""


def test_what_is_secret_stays_secret_in_all_objects(project: Project) -> None:
    """Whatever holds it: a field, a list, an annotation, a whole object, all objects, or the text of a manifest."""
    project.write(SECRETS)
    project.up()
    opened = project.pulumi("stack", "export", "--show-secrets")
    planted = set(re.findall(r"planted-in-[a-z]+", opened))
    assert planted == {f"planted-in-{place}" for place in PLACES}
    encoded = base64.b64encode(b"planted-in-secret").decode()
    assert encoded in opened
    for step in ("created", "refreshed"):
        exported = project.pulumi("stack", "export")
        assert not re.findall(r"planted-in-[a-z]+", exported), step
        assert encoded not in exported, step
        assert "readable" in exported, "neighbours of a secret stay readable"
        project.refresh()
    assert not [step for step in project.preview() if step["op"] != "same"]
    project.destroy()
