"""A Pulumi mock that records what a program registers."""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import dataset, docker, paths
from infra.upstream import vendored
from tests.unit.infra.samples import upstreams

PROGRAM = Path(paths.__file__).parent / "__main__.py"
REFERENCE = "trainstack-dev-registry:5000/trainstack/trainer@sha256:" + "a" * 64
OWNER_ID = "0123456789abcdef"
OUTPUTS: dict[str, dict[str, Any]] = {
    "pulumi-python:dynamic/trainstack:Owner": {"owner": OWNER_ID},
    "pulumi-python:dynamic/trainstack:KindCluster": {
        "instance": "one",
        "nodes": ["trainstack-dev-control-plane"],
        "kubeconfig": "apiVersion: v1",
    },
    "pulumi-python:dynamic/trainstack:Registry": {"container": "c0ffee"},
    "pulumi-python:dynamic/trainstack:BuiltImage": {"image": "trainstack/trainer:0"},
    "pulumi-python:dynamic/trainstack:ProjectImage": {"image": "trainstack/trainer:1"},
    "pulumi-python:dynamic/trainstack:RegistryImage": {
        "digest": "sha256:" + "a" * 64,
        "reference": REFERENCE,
    },
    "pulumi-python:dynamic/trainstack:RepositoryImage": {
        "digest": "sha256:" + "b" * 64,
        "reference": "registry.example/trainer@sha256:" + "b" * 64,
    },
    "pulumi-python:dynamic/trainstack:ImportedImage": {"reference": "trainstack/trainer:0"},
    "pulumi-python:dynamic/trainstack:MicroK8s": {
        "instance": "one",
        "ours": True,
        "kubeconfig": "apiVersion: v1",
    },
    "pulumi-python:dynamic/trainstack:Run": {"jobStatus": "Succeeded", "accuracy": 0.97, "loss": 0.1},
}


class Recorder(pulumi.runtime.Mocks):
    """Answers as the providers would; `registered` holds every custom resource in the order of its registration."""

    def __init__(self) -> None:
        self.registered: list[pulumi.runtime.MockResourceArgs] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        outputs = {**args.inputs, **OUTPUTS.get(args.typ, {})}
        if args.typ.startswith("kubernetes:"):
            outputs["metadata"] = {**outputs.get("metadata", {}), "uid": f"uid-of-{args.name}"}
        self.registered.append(args)
        return args.name, outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        return {}, []

    def of(self, typ: str) -> list[pulumi.runtime.MockResourceArgs]:
        return [args for args in self.registered if args.typ == typ]

    def manifests(self) -> dict[str, dict[str, Any]]:
        """Registered Kubernetes objects by `Kind/name`."""
        return {
            f"{args.inputs['kind']}/{args.inputs['metadata']['name']}": args.inputs
            for args in self.registered
            if args.typ.startswith("kubernetes:")
        }


def hand_over(sections: Mapping[str, Any], folder: Path, stack: str = "dev") -> None:
    """Give `sections` to the program as Pulumi does: the stack file in `folder`, and its values as JSON."""
    config = {f"trainstack:{name}": value for name, value in sections.items()}
    file = folder / "stacks" / f"Pulumi.{stack}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"config": config}))
    os.environ["PULUMI_CONFIG"] = json.dumps({key: json.dumps(value) for key, value in config.items()})


def run_program() -> None:
    """As Pulumi does, and until everything is registered."""

    @pulumi.runtime.test
    def program() -> None:
        runpy.run_path(str(PROGRAM), run_name="__main__")

    program()


def recording(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Recorder:
    """Pulumi's mocks for stack `dev`, which record. No data set, no container; upstream's manifests are OVERLAY."""
    mocks = Recorder()
    monkeypatch.setattr(docker, "labelled", lambda label: [])
    monkeypatch.setattr(vendored, "objects", upstreams)
    monkeypatch.setattr(paths, "DATA", folder / "data")
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(folder))
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: chosen)
    pulumi.runtime.set_mocks(mocks, project="trainstack", stack="dev", preview=False)
    return mocks
