"""What is refused of a patch of a pod template, and with which words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.pod_schema import MERGE_KEYS, UNUSABLE, fields, problems
from infra.upstream import vendored

GOOD = """
{}
---
metadata: {labels: {team: vision, old: null}, annotations: {$patch: replace, note: x}}
---
spec:
  automountServiceAccountToken: true
  terminationGracePeriodSeconds: null
  nodeSelector: {$patch: delete}
  tolerations: [{key: gpu, operator: Exists, tolerationSeconds: 5}]
---
spec:
  containers:
    - {name: sidecar, $patch: delete}
    - name: pytorch
      command: [python, "3"]
      env: [{name: A, value: "1"}, {$patch: replace}]
      resources: {limits: {cpu: "2", memory: null}}
      livenessProbe: {httpGet: {port: metrics}}
      startupProbe: {httpGet: {port: 80}, exec: null}
      ports: [{containerPort: 80}]
      volumeMounts: [{mountPath: /x, name: x}]
  volumes:
    - {name: x, projected: {sources: [{configMap: {name: x, items: [{key: a, path: b, mode: 256}]}}]}}
    - name: y
      ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {resources: {requests: {storage: 1Gi}}}}}
  securityContext: {$patch: replace, supplementalGroups: [1, 2]}
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}
"""
TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("wrong_pods.yaml").read_text())
BAD: dict[str, tuple[Any, list[Any]]] = {
    **{name: (row["pod"], row["problem"]) for name, row in TABLE.items()},
    **{
        f"an entry of {name} without its key": (
            yaml.safe_load(patch.format(name=name, key=key)),
            [f"{place}{name}[0].{key}", "(absent)", f"a value: entries are merged by {key}"],
        )
        for model, place, patch in (
            ("V1Container", "spec.containers[0].", "spec: {{containers: [{{name: x, {name}: [{{}}]}}]}}"),
            ("V1PodSpec", "spec.", "spec: {{{name}: [{{{key}: null}}]}}"),
        )
        for name, key in MERGE_KEYS.items()
        if name in fields(model).keys() - UNUSABLE[model]
    },
}


@pytest.mark.parametrize("patch", GOOD.split("---"))
def test_finds_nothing_in_a_good_patch(patch: str) -> None:
    assert list(problems(yaml.safe_load(patch))) == []


@pytest.mark.parametrize("name", BAD)
def test_names_the_place_the_value_and_what_is_allowed(name: str) -> None:
    patch, wanted = BAD[name]
    assert list(problems(patch)) == [tuple(wanted)]


def test_finds_each_fault() -> None:
    found = problems({"specs": {}, "spec": {"containers": [{"image": 1}, {"name": 2, "tty": 3}]}})
    assert [path for path, _, _ in found] == [
        "specs",
        "spec.containers[0].name",
        "spec.containers[1].name",
        "spec.containers[1].tty",
    ]


def missing(model: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Model and field, of the fields of the client that a CRD's `schema` lacks."""
    for field, kind in fields(model).items():
        inner = re.sub(r"^List\[(.*)]$", r"\1", kind)
        if field not in schema["properties"]:
            yield model, field
        elif "V1" in inner:
            found = schema["properties"][field]
            yield from missing(inner, found.get("items", found))


@pytest.mark.parametrize("project", ["training-operator", "trainer"])
def test_no_operator_drops_a_field_that_may_be_set(project: str) -> None:
    """A server drops the fields that a CRD lacks without a word."""
    kinds = {"training-operator": "PyTorchJob", "trainer": "TrainingRuntime"}
    (crd,) = [
        each
        for each in vendored.objects(project)
        if each["kind"] == "CustomResourceDefinition" and each["spec"]["names"]["kind"] == kinds[project]
    ]
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    if project == "trainer":
        jobs = spec["template"]["properties"]["spec"]["properties"]["replicatedJobs"]["items"]
        template = jobs["properties"]["template"]["properties"]["spec"]["properties"]["template"]
    else:
        template = spec["pytorchReplicaSpecs"]["additionalProperties"]["properties"]["template"]
    reachable = {each for each in missing("V1PodTemplateSpec", template) if each[0] != "V1EphemeralContainer"}
    unusable = {(model, field) for model, names in UNUSABLE.items() for field in names}
    if project == "trainer":
        # what PyTorchJob lacks as a whole needs no place for its parts
        assert reachable <= unusable | {("V1PodCertificateProjection", "user")}
    else:
        assert reachable == unusable - {("V1PodSpec", "ephemeralContainers")}
