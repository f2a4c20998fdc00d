"""The search: observe, judge, propose, change the stack, wait; until no trial is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolchain.steps import SetupError
from toolchain.sweep import trials
from toolchain.sweep.trials import TAKEN_DOWN, Answer, Search, Stack, Study, Trial, observe

MOST_SILENT = 20
"""After this many rounds without an answer, the API server is not just slow: `make up` repairs the cluster."""
MOST_FAILED = 3
"""If this many trials fail before one succeeds, all have probably failed for the same reason, so the search ends."""
FINAL = (trials.COMPLETE, trials.PRUNED, trials.FAILED)


def search(
    asked: Search, study: Study, stack: Stack, say: Callable[[str], None], pause: Callable[[], None]
) -> Answer:
    """Run all trials; returns the study's last answer.

    All lasting data is in the study and in the stack, so a killed search can continue. Raises SetupError.

    Parameters:
        say: gets a line for each trial that ends.
        pause: waits for a moment.
    """
    answer = study.exchange([], proposes=False)
    answer = _look(asked, study, stack, say, answer, None)
    under_way, is_over = answer.in_state(trials.RUNNING), len(answer.trials) >= asked.study["trials"]
    if is_over and not under_way and not stack.runs():
        return answer
    stack.submit(under_way)
    submitted, failed_before, made_again = _numbers(answer), _failed(answer), set[str]()
    silence = _Silence(stack, say)
    while True:
        conditions = stack.conditions()
        silence.judge(conditions, under_way)
        answer = _look(asked, study, stack, say, answer, conditions, proposes=True)
        failed = _failed(answer) - failed_before
        if len(failed) >= MOST_FAILED and not answer.in_state(trials.COMPLETE):
            raise SetupError(
                f"{len(failed)} trials failed, and no trial succeeded",
                "fix the error in their last log lines, then run the same command to continue",
            )
        under_way = answer.in_state(trials.RUNNING)
        lost = _lost(asked, under_way, conditions, submitted)
        if missing := lost & made_again:
            raise SetupError(
                f"the stack created no job for {', '.join(sorted(missing))}, or somebody deletes it at once",
                f"look at the jobs: kubectl get {asked.resource} --namespace {asked.namespace}; "
                "then run the same command to continue",
            )
        if _numbers(answer) != submitted or lost:
            stack.submit(under_way)
            submitted = _numbers(answer)
        if conditions is not None:
            made_again = lost
        if not submitted:
            return answer
        pause()


class _Silence:
    """Counts rounds in which the cluster does not answer, and reacts."""

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self.stack, self.say = stack, say
        self.rounds, self.was_brought_back = 0, False

    def judge(self, conditions: Mapping[str, str] | None, under_way: Sequence[Trial]) -> None:
        """Print a line in the first silent round, bring the stack back after MOST_SILENT, raise after twice as many."""
        if conditions is not None:
            self.rounds, self.was_brought_back = 0, False
            return
        if self.stack.is_down():
            raise SetupError(*TAKEN_DOWN)
        self.rounds += 1
        if self.rounds == 1:
            self.say("the cluster does not report its trials; the search waits for it")
        if self.rounds < MOST_SILENT:
            return
        if self.was_brought_back:
            raise SetupError(
                "the cluster does not report its trials, even after `make up`",
                "`make status` shows what is wrong; fix it, then run the same command to continue",
            )
        self.say("the cluster still does not answer: the stack is brought up again")
        self.stack.bring_back(under_way)
        self.rounds, self.was_brought_back = 0, True


def _look(
    asked: Search,
    study: Study,
    stack: Stack,
    say: Callable[[str], None],
    known: Answer,
    conditions: Mapping[str, str] | None,
    *,
    proposes: bool = False,
) -> Answer:
    """Observe the running trials, and send that to the study; print a line for each trial that has ended."""
    runs = stack.runs()
    seen = [observe(asked, each, runs, conditions) for each in known.in_state(trials.RUNNING)]
    answer = study.exchange(seen, proposes=proposes)
    ended = {each.number for each in known.trials if each.state in FINAL}
    for each in answer.trials:
        if each.state in FINAL and each.number not in ended:
            say(line(asked, each))
            if each.state == trials.FAILED and each.run:
                for text in stack.last_lines(each.run):
                    say(f"    {text}")
    return answer


def _failed(answer: Answer) -> set[str]:
    """The options of failed trials, each once: a trial with the same options as a failed trial was not run."""
    return {options(each) for each in answer.in_state(trials.FAILED)}


def _numbers(answer: Answer) -> set[int]:
    return {each.number for each in answer.in_state(trials.RUNNING)}


def _lost(
    asked: Search, under_way: Sequence[Trial], conditions: Mapping[str, str] | None, submitted: set[int]
) -> set[str]:
    """Names of jobs that were submitted for running trials but are not in the cluster."""
    names = {f"{asked.job}{each.number}" for each in under_way if each.number in submitted}
    return set() if conditions is None else names - set(conditions)


def line(asked: Search, trial: Trial) -> str:
    """`trial 3: accuracy=0.9712 with batchSize=64, lr=0.0123`."""
    what = {trials.PRUNED: f"given up after epoch {trial.epoch}, ", trials.FAILED: "failed, "}.get(
        trial.state, ""
    )
    result = "" if trial.objective is None else f"{asked.objective}={trial.objective:.4f} "
    return f"trial {trial.number}: {what}{result}with {options(trial)}"


def options(trial: Trial) -> str:
    """`batchSize=64, lr=0.0123`."""
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in sorted(trial.values.items()))
