"""`python -m infra.sweep.study`: one exchange with a search's study, which Optuna keeps in a file on the volume.

The process reads a request with observations from standard input, and prints all trials, both as JSON. Everything is
stored in the file: the finished work of a killed process counts, and the next process does the rest. It runs in a
virtual environment of its own, with Optuna and without the program's packages.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

# TORN marks a proposal that is not a trial: a kill interrupted it, or a running trial has the same values.
IDENTITY, RUN, TORN = "identity", "run", "torn"
MOST_ASKED = 10
"""After this many proposals in a row with a running trial's values, a later exchange proposes the rest."""
# How many finished trials the pruner needs for a median; Optuna's own default is 5.
MEDIAN_OF = 3
DIGITS = 4
"""Significant digits of a proposal: people read stack files."""


class _HeldAlready(JournalFileOpenLock):
    """No lock, because `make sweep` holds its own. Optuna's lock would outlive a kill and block the next process."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Do nothing."""


class AnotherSearchError(Exception):
    """The study of this name belongs to a search with another identity."""


class UnreadableError(Exception):
    """The study's file is not an Optuna journal."""


def exchange(request: Mapping[str, Any]) -> dict[str, Any]:
    """Save the observations, judge the running trials, and propose the missing trials.

    Parameters:
        request: `journal`, the study's file; `identity`, a hash of what its trials have in common; `direction`;
            `options`, by key as infra.config.sweep_space has them; `epochs` of a trial: a number, the key of the option
            that has the number, or None if it is unknown; `trials`, their number in all; `parallel`, how many trials
            run at once; `prune`; `seed`; `proposes`, whether to propose trials now; and `observed`, a list of
            observations. Each has `number`, `outcome` (running, succeeded or failed), `run`, and `objective`, pairs of
            an epoch and the objective after this epoch.

    Returns `trials`, each with `number`, `state` (running, complete, pruned or fail), `values` by key, `objective`,
    `epoch` and `run`; and `best`, the number of the best complete trial, or None. Raises AnotherSearchError,
    UnreadableError, and OSError if the file cannot be read or written.
    """
    study = _open(request)
    space = {key: _distribution(each) for key, each in request["options"].items()}
    for each in _trials(study):
        if each.state == TrialState.RUNNING and each.params.keys() != space.keys():
            _drop(study, each)  # a kill interrupted its proposal
    for observed in request["observed"]:
        _write_down(study, observed)
        if request["prune"]:
            _judge(study, observed["number"], request["epochs"])
    while request["proposes"] and _wants_more(study, request) and _propose(study, space):
        pass
    return _told(study, space)


def _open(request: Mapping[str, Any]) -> optuna.Study:
    file = Path(request["journal"])
    _cut_torn_line(file)
    backend = JournalFileBackend(str(file), lock_obj=_HeldAlready(str(file)))
    try:
        storage = JournalStorage(backend)  # reads the whole file
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from None
    try:
        study = optuna.load_study(study_name=file.stem, storage=storage)
    except KeyError:
        study = optuna.create_study(study_name=file.stem, storage=storage, direction=request["direction"])
    if IDENTITY not in study.user_attrs:
        study.set_user_attr(IDENTITY, request["identity"])
    if study.user_attrs[IDENTITY] != request["identity"]:
        raise AnotherSearchError
    seed = _seed(request["seed"], len(_trials(study)))
    study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=request["parallel"] > 1)
    study.pruner = optuna.pruners.MedianPruner(n_startup_trials=MEDIAN_OF)
    return study


def _seed(given: int, trials: int) -> int:
    """The sampler's seed. Each exchange is a new process: with the seed `given` alone, it would repeat its proposals.

    A sum of `given` and `trials` is not enough: seed 1 after two trials would propose the same as seed 2 after one.
    """
    return int.from_bytes(hashlib.sha256(f"{given} {trials}".encode()).digest()[:4])


def _cut_torn_line(file: Path) -> None:
    """Remove a line that a kill cut off: Optuna would add the next line to it, and then refuse the file."""
    if not file.exists():
        return
    with file.open("r+b") as opened:
        content = opened.read()
        opened.truncate(content.rfind(b"\n") + 1)


def _trials(study: optuna.Study) -> list[FrozenTrial]:
    return list(study.get_trials(deepcopy=False))


def _trial(study: optuna.Study, frozen: FrozenTrial) -> optuna.Trial:
    """The trial `frozen` with Optuna's methods that change it, also if an earlier process asked for it."""
    return optuna.Trial(study, frozen._trial_id)


def _distribution(asked: Mapping[str, Any]) -> BaseDistribution:
    if "values" in asked:
        return CategoricalDistribution(asked["values"])
    kind = IntDistribution if asked["whole"] else FloatDistribution
    return kind(asked["low"], asked["high"], log=asked["log"])


def _write_down(study: optuna.Study, observed: Mapping[str, Any]) -> None:
    """Save the observations of one trial. Known observations change nothing."""
    frozen = next(each for each in _trials(study) if each.number == observed["number"])
    if frozen.state != TrialState.RUNNING:
        return
    trial = _trial(study, frozen)
    for epoch, value in observed["objective"]:
        if epoch not in frozen.intermediate_values:
            trial.report(value, epoch)
    if observed["run"]:
        trial.set_user_attr(RUN, observed["run"])
    if observed["outcome"] == "failed":
        study.tell(frozen.number, state=TrialState.FAIL)
    elif observed["outcome"] == "succeeded":
        study.tell(frozen.number, observed["objective"][-1][1])


def _judge(study: optuna.Study, number: int, epochs: int | str | None) -> None:
    """Prune a running trial that is poor, except after its last epoch: that would save nothing."""
    frozen = next(each for each in _trials(study) if each.number == number)
    if frozen.state != TrialState.RUNNING or frozen.last_step is None:
        return
    if frozen.last_step < _epochs(study, frozen, epochs) and _trial(study, frozen).should_prune():
        study.tell(number, state=TrialState.PRUNED)


def _epochs(study: optuna.Study, trial: FrozenTrial, told: int | str | None) -> int:
    """The epochs of `trial`. If unknown, the epochs of the longest complete trial."""
    if isinstance(told, str):
        return int(trial.params[told])
    complete = [each.last_step or 0 for each in _trials(study) if each.state == TrialState.COMPLETE]
    return max(complete, default=0) if told is None else told


def _wants_more(study: optuna.Study, request: Mapping[str, Any]) -> bool:
    whole = [each for each in _trials(study) if TORN not in each.user_attrs]
    running = [each for each in whole if each.state == TrialState.RUNNING]
    return len(running) < int(request["parallel"]) and len(whole) < int(request["trials"])


def _propose(study: optuna.Study, space: Mapping[str, BaseDistribution]) -> bool:
    """Ask Optuna for a trial; False if each proposal has the values of a running trial.

    A proposal with the values of an ended trial gets that trial's result, and is not trained again.
    """
    known = _known(study)
    if sum(each.state == TrialState.RUNNING for each in known) >= _size(space):
        return False
    for _ in range(MOST_ASKED):
        number = study.ask(dict(space)).number
        proposed = next(each for each in _trials(study) if each.number == number)
        values = _values(proposed, space)
        same = [each for each in known if _values(each, space) == values]
        if not same:
            return True
        if same[0].state != TrialState.RUNNING:
            _end_as(study, proposed, same[0])
            return True
        _drop(study, proposed)
    return False


def _known(study: optuna.Study) -> list[FrozenTrial]:
    """All trials except torn proposals: complete trials first, then running ones, then the others."""
    order = (TrialState.COMPLETE, TrialState.RUNNING)
    whole = [each for each in _trials(study) if TORN not in each.user_attrs]
    return sorted(whole, key=lambda each: order.index(each.state) if each.state in order else len(order))


def _size(space: Mapping[str, BaseDistribution]) -> float:
    """The number of possible different trials."""
    size = 1.0
    for each in space.values():
        if isinstance(each, CategoricalDistribution):
            size *= len(set(each.choices))
        elif isinstance(each, IntDistribution):
            size *= each.high - each.low + 1
        else:
            size = math.inf
    return size


def _end_as(study: optuna.Study, proposed: FrozenTrial, known: FrozenTrial) -> None:
    trial = _trial(study, proposed)
    if known.state == TrialState.COMPLETE:
        trial.set_user_attr(RUN, known.user_attrs.get(RUN))
        study.tell(proposed.number, known.value)
        return
    for epoch, value in known.intermediate_values.items():
        trial.report(value, epoch)
    if known.state == TrialState.PRUNED:  # not for a failed trial: its last lines would be shown again
        trial.set_user_attr(RUN, known.user_attrs.get(RUN))
    study.tell(proposed.number, state=known.state)


def _drop(study: optuna.Study, proposed: FrozenTrial) -> None:
    _trial(study, proposed).set_user_attr(TORN, True)
    study.tell(proposed.number, state=TrialState.FAIL)


def _values(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> dict[str, float]:
    """The values of a trial for a stack file: rounded, and within their range."""
    return {key: _rounded(trial.params[key], space[key]) for key in sorted(trial.params)}


def _rounded(value: float, distribution: BaseDistribution) -> float:
    if not isinstance(distribution, FloatDistribution):
        return value
    low, high = float(distribution.low), float(distribution.high)
    return min(max(float(f"{value:.{DIGITS}g}"), low), high)


def _last(trial: FrozenTrial) -> float | None:
    """The objective after the last reported epoch, else the trial's result; None if Optuna has neither."""
    value: float | None = trial.intermediate_values.get(trial.last_step, trial.value)
    return value


def _told(study: optuna.Study, space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    told = [
        {
            "number": each.number,
            "state": each.state.name.lower(),
            "values": _values(each, space),
            "objective": _last(each),
            "epoch": each.last_step,
            "run": each.user_attrs.get(RUN) or "",
        }
        for each in _trials(study)
        if TORN not in each.user_attrs
    ]
    is_known = any(each["state"] == "complete" for each in told)
    return {"trials": told, "best": study.best_trial.number if is_known else None}


def main() -> int:
    """Do one exchange; returns the exit status."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    request = json.load(sys.stdin)
    try:
        print(json.dumps(exchange(request)))
    except AnotherSearchError:
        print(json.dumps({"error": "another search"}))
    except UnreadableError as error:
        print(json.dumps({"error": "unreadable", "text": str(error)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
