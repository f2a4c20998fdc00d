"""The SDK's yaml and kustomize helpers, which need the provider's own calls, and its components."""

from __future__ import annotations

import pytest

from standins.tests.project import Project

pytestmark = pytest.mark.apiserver

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
