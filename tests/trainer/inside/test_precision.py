import json
from dataclasses import replace

import pytest
import torch

from tests.inside.conftest import Job
from trainer import precision
from trainer.distributed import World
from trainer.recipes import RECIPES

FLOAT32, BFLOAT16 = (replace(RECIPES["published-sgd"], bf16=wanted) for wanted in (False, True))


@pytest.mark.parametrize("has", [False, True])
def test_bfloat16_needs_the_wish_and_the_processor(has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_multiplies_bf16", lambda device: has)
    alone = World(0, 1, torch.device("cpu"))
    assert precision.choose(FLOAT32, alone) is torch.float32
    assert precision.choose(BFLOAT16, alone) is (torch.bfloat16 if has else torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_the_forward_pass_have_the_dtype(dtype: torch.dtype) -> None:
    with precision.forward_pass(dtype, torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is dtype


def test_the_log_and_the_configuration_say_what_was_multiplied(job: Job) -> None:
    output = job.train("--bf16", world=2)
    config = json.loads((job.folder() / "config.json").read_text())
    assert config["bf16"] is True
    assert config["precision"] in ("bfloat16", "float32")
    assert ("computing in float32" in output) == (config["precision"] == "float32")
    job.train("--no-bf16", world=2, run="float32")
    assert (job.model() == job.model("float32")) == (config["precision"] == "float32")


def test_one_rank_without_bfloat16_keeps_all_from_it(job: Job) -> None:
    """Rank 1 believes that its processor lacks it."""
    script = (
        "import os\n"
        "from trainer import __main__, precision\n"
        "precision._multiplies_bf16 = lambda device: os.environ['RANK'] == '0'\n"
        "__main__.run()\n"
    )
    job.train("--no-bf16", world=2, run="float32")
    ranks = job.start("--bf16", world=2, script=script)
    assert ranks.wait() == [0, 0], ranks.output
    assert "computing in float32" in ranks.output[0]
    assert job.model() == job.model("float32")
