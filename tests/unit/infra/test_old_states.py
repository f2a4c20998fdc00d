"""States that release 0.1 made are taken over: same resources, same providers, nothing to change.

`states_of_0_1.json` holds what commit 6dfdd45 registered on Pulumi's mocks for its five stacks, and for one on MicroK8s
without a repository: the stack's configuration, each resource's type and name below its parents (a URN without stack
and project), and of each dynamic resource the inputs, with the pickled provider, and what creation added (`made`). ROOT
stands for the folder of the clone.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dill
import pytest
import yaml
from pulumi.dynamic import ResourceProvider
from pulumi.runtime import mocks

from infra import paths
from tests.unit.infra.recorder import OUTPUTS, Recorder
from tests.unit.infra.review import test_rendering

STATES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("states_of_0_1.json").read_text().replace("ROOT", str(paths.ROOT))
)
DYNAMIC = {
    (name, held["type"], held["name"]): held for name, state in STATES.items() for held in state["dynamic"]
}
PROVIDERS = {
    "BuiltImage": "BuiltImageProvider",
    "ImportedImage": "ImportedImageProvider",
    "KindCluster": "ClusterProvider",
    "MicroK8s": "MicroK8sProvider",
    "ModelCopy": "CopyProvider",
    "NodeDirectory": "DirectoryProvider",
    "OperatorWebhook": "WebhookProvider",
    "PulledImages": "PulledImagesProvider",
    "Registry": "RegistryProvider",
    "RegistryConnection": "ConnectionProvider",
    "RegistryImage": "RegistryImageProvider",
    "RepositoryImage": "RepositoryImageProvider",
    "Run": "RunProvider",
}
# What set-up found on the machine, as variables of the program.
IMAGES = {
    "TRAINSTACK_NODE_IMAGE": "trainstack/node:1.34.4-0",
    "TRAINSTACK_REGISTRY_IMAGE": "trainstack/registry:3.0.0-0",
    "TRAINSTACK_OPERATOR_IMAGE": "trainstack/training-operator:1.9.3-0",
    "TRAINSTACK_INIT_IMAGE": "trainstack/init:0",
    "TRAINSTACK_CPU_BASE": "trainstack/base:trixie-0",
}
MORE_OUTPUTS = {
    "ImportedImage": {"reference": "trainstack/trainer:0"},
    "MicroK8s": {"instance": "one", "ours": True, "kubeconfig": "apiVersion: v1"},
    "ModelCopy": {"sha256": "c" * 64},
}
# A run's id is made in another way since: the first update after release 0.1 trains once more, into a run of its own.
NEW_IDS = {"run"}
recorder = test_rendering.recorder
# Their differences depend on what this machine holds: a stopped cluster is one. test_kind* and test_microk8s have them.
ASK_THE_MACHINE = {"KindCluster", "MicroK8s", "Registry"}


def provider(held: dict[str, Any]) -> ResourceProvider:
    """As Pulumi's plugin for dynamic resources makes it from a state."""
    found = dill.loads(base64.b64decode(held["inputs"]["__provider"]))
    assert isinstance(found, ResourceProvider)
    return found


def test_every_kind_of_provider_of_that_release_is_here() -> None:
    assert {type_ for _, type_, _ in DYNAMIC} == PROVIDERS.keys()


@pytest.mark.parametrize("key", DYNAMIC, ids=" ".join)
def test_a_stored_provider_is_the_class_of_today(key: tuple[str, str, str]) -> None:
    found = type(provider(DYNAMIC[key]))
    assert found.__name__ == PROVIDERS[key[1]]
    assert issubclass(found, ResourceProvider)


@pytest.mark.parametrize("key", [key for key in DYNAMIC if key[1] not in ASK_THE_MACHINE], ids=" ".join)
def test_what_is_unchanged_is_no_difference(key: tuple[str, str, str]) -> None:
    held = DYNAMIC[key]
    found = provider(held).diff(held["id"], held["inputs"] | held["made"], held["inputs"])
    assert (found.changes, found.replaces or []) == (False, [])


@dataclass
class Registered:
    """What the present program registers for the configuration of an old state."""

    names: list[str]
    dynamic: dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(params=STATES)
def now(
    request: pytest.FixtureRequest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[str, Registered]:
    """Name of an old state, and what the program registers today; on a machine that builds its own images, as then."""
    names: list[str] = []

    def make_urn(monitor: mocks.MockMonitor, parent: str, type_: str, name: str) -> str:
        kept = parent.split("::")[2] if parent else ""
        chain = "" if kept in ("", "pulumi:pulumi:Stack") else f"{kept}$"
        names.append(f"{chain}{type_}::{name}")
        return f"urn:pulumi:stack::project::{chain}{type_}::{name}"

    monkeypatch.setattr(mocks.MockMonitor, "make_urn", make_urn)
    for variable, image in IMAGES.items():
        monkeypatch.setenv(variable, image)
    for type_, outputs in MORE_OUTPUTS.items():
        monkeypatch.setitem(OUTPUTS, f"pulumi-python:dynamic/trainstack:{type_}", outputs)
    file = tmp_path / f"Pulumi.{request.param}.yaml"
    file.write_text(yaml.safe_dump({"config": STATES[request.param]["config"]}))
    test_rendering.registered(recorder, file, monkeypatch)
    dynamic = {
        (args.typ.rpartition(":")[2], args.name): args.inputs
        for args in recorder.registered
        if args.typ.startswith("pulumi-python:")
    }
    return request.param, Registered(names, dynamic)


def test_no_resource_of_an_old_state_has_another_name_now(now: tuple[str, Registered]) -> None:
    """Another type, name or parent would delete it and make it anew."""
    state, registered = now
    # The stack itself is Pulumi's to make; it is registered once in a process, so another test may have done it.
    made = {urn for urn in STATES[state]["urns"] if not urn.startswith("pulumi:pulumi:Stack::")}
    assert sorted(made - set(registered.names)) == []


def test_an_update_replaces_nothing_that_the_old_release_made(now: tuple[str, Registered]) -> None:
    state, registered = now
    replaced = {}
    for (type_, name), inputs in registered.dynamic.items():
        held = DYNAMIC.get((state, type_, name))
        if held is None or type_ in ASK_THE_MACHINE:
            continue
        found = provider({"inputs": inputs}).diff(held["id"], held["inputs"] | held["made"], inputs)
        if set(found.replaces or []) - NEW_IDS:
            replaced[f"{type_} {name}"] = found.replaces
    assert replaced == {}
