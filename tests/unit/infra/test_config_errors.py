"""Wrong stack files: each is refused before anything is registered, and the error says how to mend it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import places
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.samples import JOB

PROGRAM = Path(places.__file__).parent / "__main__.py"
REFERENCE = "ghcr.io/you/trainer@sha256:" + "0" * 64


def job(**changes: Any) -> dict[str, Any]:
    return {"job": {**JOB, **changes}}


def with_job(**sections: Any) -> dict[str, Any]:
    return {"job": JOB, **sections}


def training(**changes: Any) -> dict[str, Any]:
    return job(training=changes)


EXISTING = {"kind": "existing"}

# sections, key, value as shown, a word of what is allowed, a word of the fix
CASES: dict[str, tuple[dict[str, Any], str, str, str, str]] = {
    "no job": ({}, "job", "(absent)", "one job", "add `trainstack:job"),
    "job and jobs": ({"job": JOB, "jobs": [JOB]}, "job", "(present", "one job", "into the list jobs"),
    "two jobs of one name": (
        {"jobs": [JOB, JOB]},
        "jobs[1].name",
        "'pytorch-simple'",
        "differ",
        "pytorch-simple-2",
    ),
    "unknown section": (with_job(clutser={}), "clutser", "{}", "cluster, image", "did you mean cluster"),
    "unknown key": (job(comand=["x"]), "job.comand", "['x']", "command", "did you mean command"),
    "unknown nested key": (training(epoch=3), "job.training.epoch", "3", "epochs", "did you mean epochs"),
    "snake case": (
        job(restart_policy="Never"),
        "job.restart_policy",
        "'Never'",
        "restartPolicy",
        "did you mean",
    ),
    "section is no mapping": (with_job(cluster="kind"), "cluster", "'kind'", "mapping", "cluster:"),
    "name is missing": ({"job": {"args": []}}, "job.name", "(absent)", "name", "add `name:"),
    "name with capitals": (job(name="MNIST_1"), "job.name", "'MNIST_1'", "lower-case", "mnist-1"),
    "name too long": (job(name="m" * 60), "job.name", "mmm", "at most 50", "mmm"),
    "name starts with a digit": (job(name="1st"), "job.name", "'1st'", "a letter first", "st"),
    "bad namespace": (
        with_job(cluster={"namespace": "Kube.Flow"}),
        "cluster.namespace",
        "Kube.Flow",
        "DNS",
        "kube-flow",
    ),
    "epochs are negative": (training(epochs=-1), "job.training.epochs", "-1", "at least 1", "`epochs: 1`"),
    "epochs are text": (
        training(epochs="3"),
        "job.training.epochs",
        "'3'",
        "whole number",
        "without quotes|itself",
    ),
    "epochs are broken": (training(epochs=1.5), "job.training.epochs", "1.5", "whole number", "1"),
    "no learning rate": (training(lr=0), "job.training.lr", "0", "above 0", "0.01"),
    "unknown data set": (
        training(dataset="cifar"),
        "job.training.dataset",
        "'cifar'",
        "fashion-mnist",
        "dataset:",
    ),
    "unknown backend": (training(backend="ncl"), "job.training.backend", "'ncl'", "gloo, nccl", "nccl"),
    "option given twice": (
        job(args=["--epochs=3"], training={"epochs": 1}),
        "job.training.epochs",
        "'1'",
        "one place",
        "out of command and args",
    ),
    "nccl without GPUs": (training(backend="nccl"), "job.resources.gpu", "0", "at least 1", "gpu: 1"),
    "nccl by argument": (job(args=["--backend", "nccl"]), "job.resources.gpu", "0", "at least 1", "gpu: 1"),
    "no workers": (job(replicas={"worker": 0}), "job.replicas.worker", "0", "at least 1", "worker: 1"),
    "two masters": (job(replicas={"master": 2}), "job.replicas.master", "2", "1", "master: 1"),
    "workers alone": (
        job(replicas={"master": None}),
        "job.replicas.master",
        "None",
        "elasticPolicy",
        "master: 1",
    ),
    "bad quantity": (job(resources={"memory": "2 GB"}), "job.resources.memory", "'2 GB'", "quantity", "2Gi"),
    "request over limit": (
        job(resources={"cpu": 1, "requests": {"cpu": 2}}),
        "job.resources.requests.cpu",
        "'2'",
        "at most the limit",
        "lower requests.cpu",
    ),
    "claim over volume": (
        with_job(storage={"request": "20Gi"}),
        "storage.request",
        "'20Gi'",
        "10Gi",
        "`request: 10Gi`",
    ),
    "relative hostPath": (
        with_job(storage={"hostPath": "models"}),
        "storage.hostPath",
        "'models'",
        "absolute",
        "/models",
    ),
    "hostPath with ..": (
        with_job(storage={"hostPath": "/var/../etc"}),
        "storage.hostPath",
        "'/var/../etc'",
        "without ..",
        "/var",
    ),
    "mode that shuts the group out": (
        with_job(storage={"mode": "0755"}),
        "storage.mode",
        "'0755'",
        "group may write",
        "2775",
    ),
    "unknown access mode": (
        with_job(storage={"accessMode": "RWX"}),
        "storage.accessMode",
        "'RWX'",
        "ReadWriteMany",
        "accessMode: ReadWrite",
    ),
    "models may be deleted": (
        with_job(storage={"reclaimPolicy": "Delete"}),
        "policy: PersistentVolume",
        "Delete",
        "may delete the models",
        "reclaimPolicy: Retain",
    ),
    "hostPath elsewhere": (
        with_job(storage={"hostPath": "/etc/x"}),
        "policy: PersistentVolume",
        "/etc/x",
        "below",
        "allowedRoots",
    ),
    "unknown kind of cluster": (
        with_job(cluster={"kind": "minikube"}),
        "cluster.kind",
        "'minikube'",
        "microk8s",
        "kind:",
    ),
    "workers elsewhere": (
        with_job(cluster={**EXISTING, "workers": 2}, image={"reference": REFERENCE}),
        "cluster.workers",
        "2",
        "only where kind is kind",
        "remove workers",
    ),
    "port out of range": (
        with_job(cluster={"apiServerPort": 70000}),
        "cluster.apiServerPort",
        "70000",
        "65535",
        "6443",
    ),
    "bad channel": (
        with_job(cluster={"kind": "microk8s", "channel": "latest"}),
        "cluster.channel",
        "'latest'",
        "<version>/<risk>",
        "1.34/stable",
    ),
    "no image for a cluster elsewhere": (
        with_job(cluster=EXISTING),
        "image.repository",
        "(absent)",
        "image.reference",
        "repository:",
    ),
    "bad image reference": (
        with_job(image={"reference": "Trainer:::"}),
        "image.reference",
        "Trainer:::",
        "lower case",
        "sha256",
    ),
    "image without digest": (
        with_job(image={"reference": "ghcr.io/you/trainer:1"}),
        "policy: PyTorchJob",
        "trainer:1",
        "no digest",
        "unpinned: true",
    ),
    "repository with a tag": (
        with_job(image={"repository": "ghcr.io/you/trainer:1"}),
        "image.repository",
        "trainer:1",
        "without tag",
        "`repository: ghcr.io/you/trainer`",
    ),
    "reference and target": (
        with_job(image={"reference": REFERENCE, "target": "gpu"}),
        "image.reference",
        "ghcr.io",
        "either reference",
        "remove reference",
    ),
    "unknown install": (
        with_job(operator={"install": "maybe"}),
        "operator.install",
        "'maybe'",
        "auto, always",
        "install:",
    ),
    "env that is no text": (job(env={"A": 1}), "job.env.A", "1", "quote", "A:"),
    "command that is no list": (
        job(command="python3 x.py"),
        "job.command",
        "python3 x.py",
        "list of words",
        "[",
    ),
    "unknown restart policy": (
        job(restartPolicy="Sometimes"),
        "job.restartPolicy",
        "Sometimes",
        "OnFailure",
        "restartPolicy:",
    ),
    "unknown cleanPodPolicy": (
        job(runPolicy={"cleanPodPolicy": "Some"}),
        "job.runPolicy.cleanPodPolicy",
        "'Some'",
        "Running, All",
        "cleanPodPolicy:",
    ),
    "no deadline": (
        job(runPolicy={"activeDeadlineSeconds": 0}),
        "job.runPolicy.activeDeadlineSeconds",
        "0",
        "at least 1",
        "3600",
    ),
    "ttl under Pulumi": (
        job(runPolicy={"ttlSecondsAfterFinished": 60}),
        "job.runPolicy.ttlSecondsAfterFinished",
        "60",
        "nothing under Pulumi",
        "make review",
    ),
    "elastic range upside down": (
        job(elasticPolicy={"minReplicas": 3, "maxReplicas": 1}),
        "job.elasticPolicy.maxReplicas",
        "1",
        "at least minReplicas",
        "maxReplicas: 3",
    ),
    "toleration's effect": (
        job(tolerations=[{"key": "gpu", "effect": "NoSchedul"}]),
        "job.tolerations[0].effect",
        "NoSchedul",
        "NoExecute",
        "effect:",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sections, key, value, allowed, fix = CASES[case]
    recorder = Recorder()
    monkeypatch.setattr(places, "DATA", tmp_path / "data")
    monkeypatch.setenv("TRAINSTACK_OPERATOR_OVERLAY", "never-read")
    monkeypatch.setattr("infra.rendering.operator", lambda stack, planned: [])
    pulumi.runtime.set_mocks(recorder, project="trainstack", stack="dev", preview=True)
    pulumi.runtime.set_all_config({f"trainstack:{name}": json.dumps(each) for name, each in sections.items()})
    with pytest.raises(pulumi.RunError) as refused:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    pulumi.runtime.set_all_config({})
    text = str(refused.value)
    first, *rest = text.splitlines()
    assert first.startswith("stacks/Pulumi.dev.yaml: "), "the file is named"
    assert (key if key.startswith("policy") else f"trainstack:{key} = ") in first, "the key is named"
    assert value in first, "the bad value is shown"
    assert allowed in text, "what is allowed is said"
    assert any(word in "\n".join(rest) for word in fix.split("|")), f"the fix is said: {text}"
    assert "  fix: " in text
    assert recorder.registered == [], "nothing is registered"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30
