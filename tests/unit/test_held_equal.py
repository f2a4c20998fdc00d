"""What two packages have to say alike, where a border keeps one from importing the other.

infra never imports the trainer, the toolchain or the stand-ins; the tests may import all of them.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pulumi_standins.emulated as emulated
import pytest
import yaml

from infra import operators, paths
from infra.clusters.kind import old_objects
from infra.clusters.kind.providers import KindCluster
from infra.clusters.microk8s.providers import MicroK8sInstallation
from infra.config.image import Preset
from infra.config.job import JobConfig
from infra.config.training import Backend, Dataset, TrainingConfig, options
from infra.objects import adoption as objects_adoption
from infra.objects import labels, owner, stack_state
from infra.objects.api import usual_kubeconfig
from infra.run import provider, timeline
from infra.upstream import vendored
from toolchain import paths as toolchain_paths
from toolchain.images import cluster_images, gpu_base
from toolchain.operating import (
    adoption,
    consents,
    environment,
    failed_jobs,
    leftovers,
    origin,
    state,
    status,
    update,
    volume_space,
)
from toolchain.paths import DATA, LOCAL, MODELS
from toolchain.runs import report_timeline
from toolchain.tools import go_modules
from trainer import options as trainer_options
from trainer import volume
from trainer.recipes import PRESETS

ROOT = Path(__file__).resolve().parents[2]


def test_data_sets() -> None:
    assert {each.value for each in Dataset} == set(trainer_options.DATASETS)


def test_backends() -> None:
    assert {each.value for each in Backend} == set(trainer_options.BACKENDS)


def test_presets() -> None:
    assert {each.value for each in Preset} == set(PRESETS)


def test_every_option_of_a_stack_is_one_of_the_trainer() -> None:
    chosen = TrainingConfig.model_validate(
        {
            "epochs": 1,
            "batchSize": 1,
            "testBatchSize": 1,
            "lr": 1,
            "momentum": 0,
            "gamma": 1,
            "seed": 1,
            "logInterval": 1,
            "backend": "gloo",
        }
    )
    names = {f"--{name}" for name in options(chosen)}
    assert len(names) == len(chosen.model_fields_set)
    assert names <= trainer_options.parser({})._option_string_actions.keys()


def test_the_model_on_the_volume() -> None:
    assert JobConfig.model_fields["model"].default == volume.MODEL


def test_the_operators_version() -> None:
    built = f"v{go_modules.load('training-operator').version}"
    assert built == vendored.version("training-operator"), vendored.FOLDER


def test_the_versions_of_the_trainer_and_jobset() -> None:
    built = [f"v{go_modules.load(name).version}" for name in ("trainer-controller", "jobset-controller")]
    assert built == [vendored.version("trainer"), vendored.version("jobset")], vendored.FOLDER


def test_the_variables_of_the_trainer() -> None:
    assert set(cluster_images.TRAINER_PROGRAMS) == set(operators.TRAINER_IMAGES.values())


def test_the_version_of_the_gang_scheduler() -> None:
    built = f"v{go_modules.load(cluster_images.SCHEDULER_MODULE).version}"
    assert built == vendored.version("scheduler-plugins"), vendored.FOLDER


def test_the_variables_of_the_gang_scheduler() -> None:
    assert set(cluster_images.SCHEDULER_PROGRAMS) == set(operators.SCHEDULER_IMAGES.values())


def test_the_version_of_pulumi() -> None:
    """Of the CLI that is built, the SDK, and the language host that the stand-in behaves like."""
    built = go_modules.load("pulumi").version
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f"pulumi=={built}" in ours["project"]["dependencies"], "pyproject.toml"
    assert version("pulumi") == built, "requirements.lock"
    assert built == emulated.LANGUAGE_HOST, "standins/pulumi_standins/emulated.py"


def test_the_minor_version_of_kubernetes() -> None:
    """Of the programs that are built, and of the node image that is pulled where that can be had."""
    tag = cluster_images.PUBLISHED_NODE.partition("@")[0].rpartition(":")[2]
    built = f"v{go_modules.load('kubernetes').version}"
    assert tag.split(".")[:2] == built.split(".")[:2], "PUBLISHED_NODE in toolchain/images/cluster_images.py"


def test_the_two_bases_of_the_gpu_image() -> None:
    """The published one, and the wheels of the one that is made where that cannot be pulled."""
    tag = gpu_base.published().partition("@")[0].rpartition(":")[2]
    torch, cuda, cudnn = tag.removesuffix("-runtime").split("-")
    locked = dict(re.findall(r"^(\S+)==(\S+)", gpu_base.LOCK.read_text(), re.MULTILINE))
    assert locked["torch"] == torch
    assert locked["nvidia-cuda-runtime-cu12"].startswith(f"{cuda.removeprefix('cuda')}.")
    assert locked["nvidia-cudnn-cu12"].startswith(f"{cudnn.removeprefix('cudnn')}.")


def test_the_version_of_pulumis_kubernetes_plugin() -> None:
    """Of the SDK that is installed, the stand-in, and what each of the two distributions asks for."""
    wanted = f"pulumi-kubernetes=={emulated.KUBERNETES_PLUGIN}"
    assert version("pulumi-kubernetes") == emulated.KUBERNETES_PLUGIN
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())
    theirs = tomllib.loads((ROOT / "standins" / "pyproject.toml").read_text())
    assert wanted in ours["project"]["dependencies"], "pyproject.toml"
    assert wanted in theirs["dependency-groups"]["dev"], "standins/pyproject.toml"
    assert re.search(rf"^{re.escape(wanted)}\b", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_the_folders_and_files_of_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "STATE", paths.STATE.parent)  # unit tests look beside the real folder
    assert (paths.ROOT, paths.STATE, paths.DATA) == (ROOT, LOCAL, DATA)
    assert paths.models("dev") == MODELS / "dev"
    assert paths.marker("x") == leftovers.marker("x")
    assert state.Access(str(paths.kubeconfig("x"))) == state.access(
        {"resources": [{"type": state.KIND_CLUSTER, "inputs": {"config": '{"name": "x"}'}}]}
    )


@pytest.mark.parametrize("named", ["", ":", "/a", "/a:{there}", "{there}:/a", ":{there}"])
def test_the_usual_kubeconfig(tmp_path: Path, named: str) -> None:
    environment = {"KUBECONFIG": named.format(there=tmp_path)}
    expected = (
        tmp_path if "there" in named else Path("/a") if named == "/a" else Path.home() / ".kube" / "config"
    )
    assert usual_kubeconfig(environment) == toolchain_paths.usual_kubeconfig(environment) == expected


def test_the_mark() -> None:
    assert adoption.OWNER_LABEL == labels.OWNER
    assert status.STACK_LABEL == labels.STACK
    assert consents.ID.pattern == owner.ID.pattern


def test_what_make_up_and_the_program_tell_each_other() -> None:
    assert consents.ADOPT == owner.ADOPT
    assert (update.LOST, update.ADOPTING) == (objects_adoption.LOST, objects_adoption.ADOPTING)
    assert environment.DELETE_UNREACHABLE == old_objects.VARIABLE


def test_the_timeline_that_a_wait_leaves_for_the_report() -> None:
    assert (report_timeline.FILE, report_timeline.REPORT) == (timeline.FILE, origin.REPORT)


def test_types_in_the_state() -> None:
    assert (state.KIND_CLUSTER, state.PROVIDER) == (stack_state.KIND_CLUSTER, stack_state.PROVIDER)
    assert (state.OWNER, state.KUBERNETES) == (stack_state.OWNER, stack_state.OBJECT)
    assert state.MICROK8S == stack_state.MICROK8S
    types: dict[str, Any] = {
        state.KIND_CLUSTER: KindCluster,
        state.MICROK8S: MicroK8sInstallation,
        state.OWNER: owner.Owner,
    }
    for token, resource in types.items():
        assert token == f"pulumi-python:{resource._resource_type_name}"


def test_when_a_volume_is_nearly_full() -> None:
    rules = yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text())["groups"]
    found = [each for group in rules for each in group["rules"] if each["alert"] == volume_space.ALERT]
    assert [float(each["expr"].rpartition("<")[2]) for each in found] == [volume_space.NEARLY_FULL]


def test_the_variable_for_failed_jobs() -> None:
    assert failed_jobs.FAILED == provider.FAILED
