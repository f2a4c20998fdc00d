"""Replicas that were not started alike are refused by all of them, naming the rank and the key."""

from dataclasses import fields

import pytest
import torch

from tests.inside.conftest import Job
from trainer import distributed, options
from trainer.launch import ExitStatus

# An option for each thing that all replicas have to share.
DIFFERENT = {
    "network": ["--network", "fast"],
    "recipe": ["--recipe", "fast"],
    "lr": ["--lr", "0.5"],
    "momentum": ["--momentum", "0.1"],
    "optimizer": ["--optimizer", "adam"],
    "schedule": ["--schedule", "step"],
    "gamma": ["--gamma", "0.1"],
    "global_batch": ["--global-batch-size", "128"],
    "label_smoothing": ["--label-smoothing", "0.2"],
    "beta2": ["--beta2", "0.5"],
    "warm_up": ["--warm-up", "0.5"],
    "bf16": ["--bf16"],
    "weight_decay": ["--weight-decay", "0.1"],
    "clip": ["--clip", "1"],
    "accumulate": ["--accumulate", "2"],
    "optimizer_args": ["--optimizer-args", '{"eps": 1}'],
    "schedule_args": ["--schedule-args", '{"gamma": 1}'],
    "dataset": ["--dataset", "mnist"],
    "epochs": ["--epochs", "3"],
    "seed": ["--seed", "2"],
    "batch_size": ["--batch-size", "8"],
    "validation": ["--validation"],
    "from": ["--from", "model.pt"],
    "patience": ["--patience", "3"],
    "test_batch_size": ["--test-batch-size", "8"],
    "backend": ["--backend", "gloo"],
    "no_cuda": ["--no-cuda"],
}


def test_every_key_has_a_case() -> None:
    config = options.parse(["--schedule", "cosine", "--patience", "1", "--from", "x", "--clip", "1"], {})
    keys = {*config.agreed(), *options.ADDED}
    assert keys == {*DIFFERENT}
    settings = {one.name for one in fields(config.settings)} - {"network", "epochs"}
    assert settings <= keys, "a new field of Recipe has to be compared"


@pytest.mark.parametrize("key", DIFFERENT)
def test_a_different_option_is_named_with_its_rank(key: str) -> None:
    alike = options.parse([], {}).agreed()
    other = options.parse(DIFFERENT[key], {}).agreed()
    with pytest.raises(distributed.SetupError, match=rf"differ in their configuration .*{key}: .* on rank 2"):
        distributed.agree([alike, alike, other], "their configuration")


@pytest.mark.parametrize(("option", "value"), [("--seed", "2"), ("--epochs", "2")])
def test_ranks_started_apart_are_refused_by_all(job: Job, option: str, value: str) -> None:
    ranks = job.start(world=2, options_of=[(), (option, value)])
    assert ranks.wait() == [ExitStatus.REFUSED, ExitStatus.REFUSED]
    for output in ranks.output:
        assert f"{option.removeprefix('--')}: 1 on rank 0, {value} on rank 1" in output
    assert not job.folder().exists()


def test_other_data_on_one_replica_is_refused(job: Job) -> None:
    ranks = job.start("--data", "tests.inside.own:by_rank", world=2)
    assert ranks.wait() == [ExitStatus.REFUSED, ExitStatus.REFUSED]
    assert all("differ in data or first weights (train: " in output for output in ranks.output)


def test_other_first_weights_are_refused(job: Job) -> None:
    script = (
        "import os\n"
        "from trainer import __main__, networks\n"
        "build = networks.build\n"
        "networks.build = lambda name, seed, *rest: build(name, seed + int(os.environ['RANK']), *rest)\n"
        "__main__.run()\n"
    )
    ranks = job.start(world=2, script=script)
    assert ranks.wait() == [ExitStatus.REFUSED, ExitStatus.REFUSED]
    assert "first weights: " in ranks.output[1]


def test_what_one_replica_lacks_refuses_all(job: Job) -> None:
    ranks = job.start(world=2, each=[{}, {"GLOO_SOCKET_IFNAME": "eth7"}])
    assert ranks.wait() == [ExitStatus.REFUSED, ExitStatus.REFUSED]
    assert all("rank 1: GLOO_SOCKET_IFNAME names eth7" in output for output in ranks.output)


def test_a_gpu_in_some_pods_only_is_used_by_none(job: Job) -> None:
    """Rank 0 believes that it has one; no rank may compute on it, or choose nccl, alone."""
    script = (
        "import os, torch, types\n"
        "from trainer import __main__\n"
        "torch.cuda.get_device_properties = lambda index: types.SimpleNamespace(uuid='GPU-0')\n"
        "torch.cuda.device_count = lambda: int(os.environ['RANK'] == '0')\n"
        "__main__.run()\n"
    )
    ranks = job.start(world=2, script=script)
    assert ranks.wait() == [0, 0], ranks.output
    job.train(world=2, run="without")
    assert job.model() == job.model("without")


def test_agreement_is_silent_when_there_is_none_to_blame() -> None:
    config = options.parse([], {}).agreed()
    distributed.agree([config, dict(config)], "their configuration")
    assert torch.distributed.is_available()
