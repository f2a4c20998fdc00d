"""What the benchmarks conclude from a job's lines, without a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import peak_memory
from tests.bench.test_trainer import multiplied_in
from trainer.recipes import RECIPES

LACKING = "not every replica's processor multiplies bfloat16: computing in float32"


@pytest.mark.parametrize("lines", [[], [LACKING]], ids=["has bfloat16", "lacks it"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_job_is_held_against_the_limit_of_its_own_products(recipe: str, lines: list[str]) -> None:
    wanted = "bfloat16" if RECIPES[recipe].bf16 and not lines else "float32"
    assert multiplied_in(recipe, ["Train Epoch: 1", *lines]) == wanted


# Has 200 MiB for a moment, says so, and stays until nobody listens to it any more.
HUNGRY = """
import sys
held = bytearray(200 * 1024 * 1024)
del held
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("word", peak_memory.ROLES)
def test_the_peak_of_a_process_is_told_by_its_role_though_it_is_past(word: str) -> None:
    shell = ["sh", "-c", '"$0" -c "$1" "$2" x; true', sys.executable, HUNGRY, word.strip()]
    peaks: dict[str, int] = {}
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdin is not None
        assert top.stdout is not None
        assert top.stdout.readline() == "ready\n"
        for pid in peak_memory.family(top.pid):
            peak_memory.note(Path(f"/proc/{pid}"), peaks)
        top.stdin.close()
    assert peaks.keys() == {peak_memory.ROLES[word]}
    assert 200 <= peaks[peak_memory.ROLES[word]] < 400


def test_a_command_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no such thing"):
        peak_memory.run(["sh", "-c", "echo no such thing; exit 1"], tmp_path, os.environ)
