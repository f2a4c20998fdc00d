"""The trials' jobs in the stack: what the program is told, and what state and cluster tell."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.config import sweep_trials
from tests.unit.toolchain.sweep.played import JOB, World
from toolchain.operating import environment, live_objects, pulumi_cli, setup, up
from toolchain.steps import SetupError
from toolchain.sweep.applied_trials import AppliedTrials
from toolchain.sweep.trials import Trial

STATE: dict[str, Any] = {
    "resources": [
        {
            "type": "pulumi:providers:kubernetes",
            "inputs": {"kubeconfigPath": "/kubeconfig", "context": "one"},
        },
        *(
            {
                "type": f"kubernetes:{kind}",
                "inputs": {"metadata": {"name": name, "labels": {"trainstack/run": f"{name}-0a1b2c3d"}}},
            }
            for kind, name in (
                ("kubeflow.org/v1:PyTorchJob", "mnist"),
                ("kubeflow.org/v1:PyTorchJob", f"{JOB}3"),
                ("trainer.kubeflow.org/v1alpha1:TrainJob", f"{JOB}4"),
                ("core/v1:ConfigMap", f"{JOB}5"),
            )
        ),
        {"type": "kubernetes:kubeflow.org/v1:PyTorchJob"},
    ]
}


class Calls:
    """What was called, and what kubectl answers."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, object]] = []
        self.exports = 0
        self.kubectl: list[tuple[str, ...]] = []
        self.answer = subprocess.CompletedProcess[str]([], 0, "", "")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setenv(agreed.TRIALS, "")

    def kubectl(*words: Any) -> subprocess.CompletedProcess[str]:
        found.kubectl.append(words[2:])
        return found.answer

    def told() -> object:
        return json.loads(Path(os.environ[agreed.TRIALS]).read_text())["trials"]

    def bring_up(stack: str, data_dir: None, ensure_committed: Callable[[str], Callable[[], None]]) -> None:
        ensure_committed(stack)()
        found.updates.append((f"make up {stack}", told()))

    def update_again(stack: str, ensure_reviewed: Callable[[], None]) -> dict[str, Any]:
        ensure_reviewed()
        found.updates.append((stack, told()))
        return STATE

    def deployment(variables: object, stack: str) -> dict[str, Any]:
        found.exports += 1
        return STATE

    monkeypatch.setattr(setup, "project_lock", nullcontext)
    monkeypatch.setattr(pulumi_cli, "deployment", deployment)
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {})
    monkeypatch.setattr(live_objects, "kubectl", kubectl)
    monkeypatch.setattr(up, "up", bring_up)
    monkeypatch.setattr(up, "update_again", update_again)
    return found


@pytest.fixture
def stack(calls: Calls, tmp_path: Path) -> AppliedTrials:
    asked = World(tmp_path, {"identity": "0a1b"}).asked
    return AppliedTrials("dev", asked, tmp_path / "sweep" / "dev.json", lambda: None)


def test_the_stack_is_brought_up_once_and_then_updated(stack: AppliedTrials, calls: Calls) -> None:
    trial = Trial(3, "running", {"training.lr": 0.1})
    stack.submit([])
    stack.submit([trial])
    stack.submit([])
    told = [{"number": 3, "values": {"training.lr": 0.1}}]
    assert calls.updates == [("make up dev", []), ("dev", told), ("dev", [])]


def test_the_program_reads_what_is_written(stack: AppliedTrials) -> None:
    stack.submit([Trial(3, "running", {"training.lr": 0.1})])
    trials = (sweep_trials.Trial(3, {"training.lr": 0.1}),)
    assert sweep_trials.read(stack.file) == sweep_trials.UnderWay("dev", JOB, "0a1b", trials)


def test_a_failed_make_up_is_done_again(
    stack: AppliedTrials, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no engine")

    with monkeypatch.context() as broken:
        broken.setattr(up, "up", fail)
        with pytest.raises(RuntimeError):
            stack.submit([])
    stack.submit([])
    assert calls.updates == [("make up dev", [])]


@pytest.mark.parametrize("is_up", [False, True])
def test_a_stack_that_is_protected_meanwhile_gets_no_more_trials(
    stack: AppliedTrials, calls: Calls, is_up: bool
) -> None:
    def refuse() -> None:
        raise SetupError("stack dev is protected")

    stack.is_up, stack.ensure_unprotected = is_up, refuse
    with pytest.raises(SetupError, match="dev is protected"):
        stack.submit([])
    assert calls.updates == []


def test_the_state_tells_the_runs_of_trials_alone(stack: AppliedTrials) -> None:
    assert stack.runs() == {f"{JOB}{number}": f"{JOB}{number}-0a1b2c3d" for number in (3, 4)}


def test_the_cluster_tells_the_conditions(stack: AppliedTrials, calls: Calls) -> None:
    def job(name: str, *conditions: tuple[str, str]) -> dict[str, Any]:
        held = [{"type": kind, "status": status} for kind, status in conditions]
        return {"metadata": {"name": name}, "status": {"conditions": held}}

    items = [
        {"metadata": {"name": "new"}},
        job("running", ("Created", "True"), ("Running", "True")),
        job("done", ("Running", "False"), ("Succeeded", "True")),
        job("trainjob", ("Complete", "True")),
        job("failed", ("Failed", "True")),
    ]
    calls.answer = subprocess.CompletedProcess([], 0, json.dumps({"items": items}), "")
    assert stack.conditions() == {
        "new": "Pending",
        "running": "Running",
        "done": "Succeeded",
        "trainjob": "Succeeded",
        "failed": "Failed",
    }
    (words,) = calls.kubectl
    assert words[:2] == ("get", "pytorchjobs.v1.kubeflow.org")
    assert words[-2:] == ("--namespace", "kubeflow")


def test_a_server_that_does_not_answer_tells_nothing(stack: AppliedTrials, calls: Calls) -> None:
    calls.answer = subprocess.CompletedProcess([], 1, "", "refused")
    assert stack.conditions() is None


def test_a_stack_that_is_not_up_tells_nothing(
    stack: AppliedTrials, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi_cli, "deployment", lambda variables, stack: {})
    assert (stack.conditions(), stack.runs(), stack.last_lines("r"), calls.kubectl) == (None, {}, [], [])


def test_the_state_is_read_once_after_each_update(stack: AppliedTrials, calls: Calls) -> None:
    """A backend of the user's exports it by Pulumi, which takes a second."""
    calls.answer = subprocess.CompletedProcess([], 0, '{"items": []}', "")
    assert len(stack.runs()) == 2
    stack.submit([])
    before = calls.exports
    for _ in range(3):
        stack.conditions()
        assert len(stack.runs()) == 2
        stack.last_lines("r")
    assert calls.exports - before == 1, "of what `make up` has left"
    stack.submit([])
    stack.runs()
    assert calls.exports - before == 1, "the update has told it"
    stack.is_down()
    assert calls.exports - before == 2, "others may have taken the stack down"


def test_a_failed_update_leaves_no_old_state(
    stack: AppliedTrials, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.submit([])
    assert stack.runs()

    def fail(*_: object) -> None:
        raise SetupError("`pulumi up` failed")

    monkeypatch.setattr(up, "update_again", fail)
    with pytest.raises(SetupError):
        stack.submit([])
    monkeypatch.setattr(pulumi_cli, "deployment", lambda variables, stack: {})
    assert stack.runs() == {}


def test_a_stack_is_brought_back_by_make_up(stack: AppliedTrials, calls: Calls) -> None:
    trial = Trial(3, "running", {"training.lr": 0.1})
    stack.submit([trial])
    stack.bring_back([trial])
    assert [how for how, _ in calls.updates] == ["make up dev", "make up dev"]
    assert not stack.is_down()


def test_a_stack_that_was_taken_down_stays_down(
    stack: AppliedTrials, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make down` of another process may be under way: it is waited for before anybody looks."""
    stack.submit([])
    states = [STATE]

    @contextmanager
    def lock() -> Iterator[None]:
        states.append({})
        yield

    monkeypatch.setattr(setup, "project_lock", lock)
    monkeypatch.setattr(pulumi_cli, "deployment", lambda variables, stack: states[-1])
    with pytest.raises(SetupError, match="taken down"):
        stack.bring_back([])
    assert [how for how, _ in calls.updates] == ["make up dev"]
    assert stack.is_down()


def test_the_last_lines_are_those_of_the_runs_pods(stack: AppliedTrials, calls: Calls) -> None:
    calls.answer = subprocess.CompletedProcess([], 0, "Traceback\nValueError\n", "")
    assert stack.last_lines("r") == ["Traceback", "ValueError"]
    assert "trainstack/run=r" in calls.kubectl[0]
