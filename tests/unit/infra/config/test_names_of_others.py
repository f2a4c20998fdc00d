"""Names and values that Kubernetes and its tools give or take: a stack file takes all of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.clusters.existing.kubeconfig import ensure_named
from infra.config import ConfigError
from infra.config.names import quantity
from infra.objects.api import ApiAddress
from infra.objects.look import Look
from infra.run.reader_pod import kubectl
from tests.unit.infra.samples import JOB, stack

# What kubeadm, EKS, AKS, GKE, oc, kind and minikube call theirs, and two that somebody has renamed.
CONTEXTS = [
    "kubernetes-admin@kubernetes",
    "arn:aws:eks:eu-west-1:123456789012:cluster/training",
    "me@training.eu-west-1.eksctl.io",
    "training-admin",
    "gke_project_europe-west1_training",
    "default/api-training-example-org:6443/kube:admin",
    "kind-training",
    "minikube",
    "Team A",
    "Entraînement",
]
SERVERS = ["nfs.example.org", "NAS-1", "192.0.2.7", "2001:db8::7"]
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
QUANTITIES = {
    "1500m": "1.5",
    "129e6": "129000000",
    "129E6": "129000000",
    "5e-1": "0.5",
    "2E": "2e18",
    "1Ei": str(2**60),
    "500000u": "0.5",
    "500000000n": "0.5",
    ".5": "0.5",
    "5.": "5",
    "123Mi": str(123 * 2**20),
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_usual_contexts_are_taken_as_they_are(context: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"contexts": [{"name": context, "context": {}}]}))
    cluster = {"kind": "existing", "context": context, "kubeconfig": str(file)}
    found = stack(cluster=cluster, image={"repository": "registry.example/trainer"})
    assert found.cluster.context == context
    ensure_named(found.file, found.cluster, Look(ApiAddress(str(file)), print))
    assert kubectl(ApiAddress(str(file), context))[-2:] == ["--context", context], "one word of a command"


@pytest.mark.parametrize("server", SERVERS)
def test_an_nfs_server_is_a_name_or_an_address(server: str) -> None:
    found = stack(storage={"kind": "nfs", "nfsServer": server, "nfsPath": "/exports"})
    assert found.storage.nfs_server == server


@pytest.mark.parametrize("text", QUANTITIES)
def test_every_form_of_a_quantity_is_one(text: str) -> None:
    assert quantity(text) == Decimal(QUANTITIES[text])
    job = {**JOB, "resources": {"cpu": text, "requests": {"cpu": text}}}
    assert stack(job=job).jobs[0].resources.cpu == text


NEITHER: list[dict[str, Any]] = [
    {"cluster": {"kind": "existing", "context": ""}, "image": {"repository": "registry.example/trainer"}},
    *(
        {"storage": {"kind": "nfs", "nfsServer": server, "nfsPath": "/exports"}}
        for server in ("", "nfs server", "nfs:/exports", "2001:db8:::7", "-nfs", "nfs.")
    ),
    *(
        {"job": {**JOB, "resources": {"memory": text}}}
        for text in ("", ".", "1 Gi", "1GB", "1e", "1e1.5", "1ki", "Gi", "0", "0e3", "-1", "1KiB")
    ),
]


@pytest.mark.parametrize("sections", NEITHER, ids=str)
def test_anything_else_is_no_context_server_or_quantity(sections: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.context|storage\.nfsServer|job\.resources\.memory"):
        stack(**sections)


LABELS = {
    "gpu": "",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "topology.kubernetes.io/zone": "eu-west-1a",
    "Team_1": "a.b_c",
    "x" * 63: "x" * 63,
}


@pytest.mark.parametrize("key", LABELS)
def test_labels_are_as_kubernetes_has_them(key: str) -> None:
    label = {key: LABELS[key]}
    job = {**JOB, "labels": label, "annotations": {key: "any text, of any length"}}
    found = stack(job=job, storage={"labels": label})
    assert found.jobs[0].labels == found.storage.labels == label


@pytest.mark.parametrize("length", [49, 50])
@pytest.mark.parametrize("given", [True, False])
def test_a_cluster_has_a_name_that_its_nodes_can_have(length: int, given: bool) -> None:
    name = "c" * length if given else "s" * (length - len("trainstack-"))
    sections = {"cluster": {"name": name}} if given else {}
    volume = {"storage": {"volume": "models"}}
    if length == 49:
        assert stack("dev" if given else name, **sections, **volume)
    else:
        with pytest.raises(ConfigError, match=r"(?s)cluster\.name.*at most 49.*fix: write"):
            stack("dev" if given else name, **sections, **volume)


@pytest.mark.parametrize("storage", [{}, {"labels": {"name": "short"}}, {"kind": "class"}], ids=str)
def test_a_volume_whose_name_is_a_label_is_short_enough_for_one(storage: dict[str, Any]) -> None:
    named = {**storage, "claim": "models", **({} if storage.get("kind") else {"volume": "v" * 64})}
    if storage.get("kind"):
        named["storageClass"] = "fast"
    if storage:
        assert stack(storage=named)
    else:
        with pytest.raises(ConfigError, match=r"(?s)storage\.volume.*at most 63.*fix: write"):
            stack(storage=named)
