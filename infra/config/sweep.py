"""Section `sweep`: a search for training options by `make sweep`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from infra.config.section import Natural, Outcome, Section, Whole, every_key, refusal, setting
from infra.config.sweep_space import FORMS, Choice, Range, option

MOST_TRIALS = 1000
NAME_RULE = "at most 20 lower-case letters, digits and -, beginning with a letter, not ending with -"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")


class Objective(StrEnum):
    """The value that decides how good a trial is, after its last epoch."""

    ACCURACY = "accuracy"
    LOSS = "loss"

    @property
    def metric(self) -> str:
        """Its key in a run's metrics.jsonl."""
        return {"accuracy": "accuracy", "loss": "test_loss"}[self]

    @property
    def direction(self) -> str:
        """`maximize` or `minimize`, as Optuna says it."""
        return "maximize" if self is Objective.ACCURACY else "minimize"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise refusal(NAME_RULE, "write for example `name: sweep`")
    return value


class SweepConfig(Section):
    """A search for the best training options, within a number of trials. `job` is the template of each trial."""

    model_config = every_key(changing=Outcome.NOTHING)

    options: Mapping[str, Any] = setting(
        about="Keys of `job.training`, for example `training.lr`, each with the values to try.",
        allowed=f"a mapping of keys to {FORMS}",
        examples=["{training.lr: {min: 0.001, max: 0.3, log: true}}"],
        note=(
            "If a search has begun under this name, `make sweep` then refuses the name: choose another `sweep.name`, "
            "because trials with different options cannot be compared."
        ),
    )
    name: Annotated[str, AfterValidator(_name)] = setting(
        about=(
            "Name of the search. It is part of the jobs' names, and of the file name of the search's journal, "
            "`<name>.journal`."
        ),
        default="sweep",
        allowed=NAME_RULE,
        examples=["sweep"],
    )
    trials: Annotated[Whole, Field(ge=1, le=MOST_TRIALS)] = setting(
        about="Total number of trials.",
        default=20,
        allowed=f"a whole number from 1 to {MOST_TRIALS}",
        examples=[20],
    )
    parallel: Annotated[Whole, Field(ge=1, le=100)] = setting(
        about="How many trials run at once.",
        default=1,
        allowed="a whole number from 1 to 100",
        examples=[2],
    )
    objective: Objective = setting(
        about="What the search optimizes: the highest accuracy, or the lowest loss.",
        default=Objective.ACCURACY,
    )
    prune: bool = setting(
        about=(
            "Stop a trial early if, after an epoch, it is worse than the median of the other trials after the "
            "same epoch."
        ),
        default=True,
        examples=["false"],
    )
    seed: Natural = setting(
        about="Seed of the search's proposals.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[1],
    )

    @model_validator(mode="after")
    def _consistent(self) -> SweepConfig:
        if not self.options:
            fix = "write `options: {training.lr: [0.01, 0.1]}`"
            raise refusal("at least one key", fix, "options", {})
        for key, given in self.options.items():
            option(key, given)
        return self

    @property
    def space(self) -> dict[str, Range | Choice]:
        """The options by key, ordered by the keys' names: Pulumi hands over mappings sorted."""
        return {key: option(key, self.options[key]) for key in sorted(self.options)}
