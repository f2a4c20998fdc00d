import json
import os
from dataclasses import replace

import pytest
import torch

from tests.inside.conftest import TINY, Job
from trainer import precision
from trainer.distributed import World
from trainer.launch import ExitStatus
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


@pytest.fixture(scope="module")
def in_float32(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model of two ranks that multiply in float32."""
    job = Job(tmp_path_factory.mktemp("float32"))
    job.train(*TINY, "--no-bf16", world=2)
    return bytes(job.model())


def test_the_log_and_the_configuration_say_what_was_multiplied(job: Job, in_float32: bytes) -> None:
    output = job.train(*TINY, "--bf16", world=2)
    config = json.loads((job.folder() / "config.json").read_text())
    assert config["bf16"] is True
    assert config["precision"] in ("bfloat16", "float32")
    assert ("computing in float32" in output) == (config["precision"] == "float32")
    assert (job.model() == in_float32) == (config["precision"] == "float32")


def test_one_rank_without_bfloat16_keeps_all_from_it(job: Job, in_float32: bytes) -> None:
    """Rank 1 believes that its processor lacks it."""
    script = (
        "import os\n"
        "from trainer import __main__, precision\n"
        "precision._multiplies_bf16 = lambda device: os.environ['RANK'] == '0'\n"
        "__main__.run()\n"
    )
    ranks = job.start(*TINY, "--bf16", world=2, script=script)
    assert ranks.wait() == [0, 0], ranks.output
    assert "computing in float32" in ranks.output[0]
    assert job.model() == in_float32


def test_what_a_network_switches_on_a_gpu_lasts_for_no_step() -> None:
    """A resumed run would begin without it."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    flags = [
        (matmul, "allow_tf32"),
        *((cudnn, name) for name in ("allow_tf32", "deterministic", "benchmark")),
    ]
    before = [getattr(owner, name) for owner, name in flags]
    try:
        for owner, name in flags:
            setattr(owner, name, name == "benchmark")
        precision.settle(torch.device("cpu"))
        assert [getattr(owner, name) for owner, name in flags] == [False, False, False, True]
        precision.settle(torch.device("cuda"))
        assert [getattr(owner, name) for owner, name in flags] == [True, True, True, False]
    finally:
        for (owner, name), value in zip(flags, before, strict=True):
            setattr(owner, name, value)


def test_a_gpu_adds_in_the_same_order_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a resumed run would end in other weights than a whole one."""
    monkeypatch.setattr(precision, "_multiplies_bf16", lambda device: False)
    monkeypatch.setattr(World, "all", lambda world, here: here)
    monkeypatch.setattr(precision, "settle", lambda device: None)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    try:
        assert precision.choose(FLOAT32, World(0, 1, torch.device("cpu"))) is torch.float32
        assert not torch.are_deterministic_algorithms_enabled()
        assert precision.choose(FLOAT32, World(0, 1, torch.device("cuda"))) is torch.float32
        assert torch.is_deterministic_algorithms_warn_only_enabled(), (
            "an algorithm that has no such form is told"
        )
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True


# Where a GPU runs out of memory: while it meets, is tried, trains or measures.
FULL = """
import os
import torch
from trainer import __main__, evaluation, rendezvous, train

def full(*arguments, **options):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\\nGPU 0 has too little.")

owner, name = {
    "meeting": (rendezvous, "join"), "trying": (torch.nn.Linear, "forward"),
    "training": (train.Training, "step"), "measuring": (evaluation, "evaluate"),
}[os.environ["WHERE"]]
setattr(owner, name, full)
__main__.run()
"""


@pytest.mark.parametrize("where", ["meeting", "trying", "training", "measuring"])
def test_too_little_memory_of_a_gpu_is_a_sentence(job: Job, where: str) -> None:
    ranks = job.start(*TINY, script=FULL, WHERE=where)
    assert ranks.wait() == [ExitStatus.REFUSED], ranks.output
    assert "Traceback" not in ranks.output[0]
    last = ranks.output[0].splitlines()[-1]
    assert last.startswith(
        "error: the GPU has too little memory (CUDA out of memory. Tried to allocate 2.00 GiB.); "
    )
    assert "take a smaller --batch-size" in last
