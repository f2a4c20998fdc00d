"""What two packages have to say alike, where a border keeps one from importing the other.

infra never imports the trainer, the toolchain or the stand-ins; the tests may import all of them. What program and
toolchain say alike is in infra.agreed.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import pulumi_standins.emulated as emulated
import yaml

from infra.config import counterparts
from infra.config.image import Preset
from infra.config.job import JobConfig
from infra.config.training import Backend, Dataset, TrainingConfig, options
from infra.training_operator import patches
from infra.upstream import vendored
from toolchain.images import cluster_images, gpu_base
from toolchain.operating import volume_space
from toolchain.paths import ROOT
from toolchain.tools import go_modules
from trainer import options as trainer_options
from trainer import volume
from trainer.recipes import PRESETS


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
    (deployed,) = [each for each in vendored.objects("training-operator") if each["kind"] == "Deployment"]
    assert deployed["spec"]["template"]["spec"]["containers"][0]["image"] == patches.IMAGE


def test_the_versions_of_the_trainer_and_jobset() -> None:
    built = [f"v{go_modules.load(name).version}" for name in ("trainer-controller", "jobset-controller")]
    assert built == [vendored.version("trainer"), vendored.version("jobset")], vendored.FOLDER
    trainer, jobset = (each.removeprefix("v") for each in built)
    assert f"Kubeflow Trainer {trainer} and JobSet {jobset}" in counterparts.INTRODUCTION


def test_the_version_of_kueue() -> None:
    assert f"v{go_modules.load('kueue').version}" == vendored.version("kueue"), vendored.FOLDER


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


def test_when_a_volume_is_nearly_full() -> None:
    rules = yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text())["groups"]
    found = [each for group in rules for each in group["rules"] if each["alert"] == volume_space.ALERT]
    assert [float(each["expr"].rpartition("<")[2]) for each in found] == [volume_space.NEARLY_FULL]
