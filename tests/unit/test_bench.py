"""What the benchmarks conclude from a job's lines, without a job."""

from __future__ import annotations

import pytest

from tests.bench.test_trainer import multiplied_in
from trainer.recipes import RECIPES

LACKING = "not every replica's processor multiplies bfloat16: computing in float32"


@pytest.mark.parametrize("lines", [[], [LACKING]], ids=["has bfloat16", "lacks it"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_job_is_held_against_the_limit_of_its_own_products(recipe: str, lines: list[str]) -> None:
    wanted = "bfloat16" if RECIPES[recipe].bf16 and not lines else "float32"
    assert multiplied_in(recipe, ["Train Epoch: 1", *lines]) == wanted
