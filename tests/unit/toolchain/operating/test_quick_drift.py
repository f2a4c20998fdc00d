"""Drift at a glance: what was applied last, what waits in the stack file, what somebody has done to the objects."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
import yaml

from infra import agreed
from infra.objects import labels
from toolchain.operating import live_objects, quick_drift, state, user_backend
from toolchain.operating.quick_drift import LastUpdate
from toolchain.operating.status import LISTED
from toolchain.paths import ROOT
from toolchain.steps import SetupError

NOON = datetime(2026, 11, 23, 12)
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "mnist", "namespace": "kubeflow", "labels": {"trainstack/stack": "dev"}},
    "spec": {
        "runPolicy": {"suspend": True, "activeDeadlineSeconds": 3600},
        "containers": [
            {"name": "pytorch", "args": ["--epochs=1"], "resources": {"cpu": "1", "memory": "1Gi"}}
        ],
    },
}
Change = Callable[[dict[str, Any]], None]


def live() -> dict[str, Any]:
    """JOB as the API server holds it: with defaults, a status, and other words for the same amounts."""
    found = copy.deepcopy(JOB)
    container = found["spec"]["containers"][0]  # type: ignore[index]
    container["resources"] = {"cpu": "1000m", "memory": "1024Mi"}
    container["terminationMessagePath"] = "/dev/termination-log"
    found["spec"]["runPolicy"]["suspend"] = False  # type: ignore[index]
    found["metadata"] |= {"uid": "1", "resourceVersion": "7"}  # type: ignore[operator]
    return found | {"status": {"conditions": []}}


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The resources in the stack's state, to be added to: one job, and what status does not list."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}
    found = [
        {"urn": "urn:job", "type": "kubernetes:kubeflow.org/v1:PyTorchJob", "inputs": JOB},
        {"urn": "urn:key", "type": "kubernetes:core/v1:Secret", "inputs": secret},
        {"urn": "urn:component", "type": "trainstack:job:Job", "inputs": {"kind": "PyTorchJob"}},
    ]
    monkeypatch.setattr(user_backend, "backend", lambda: None)
    monkeypatch.setattr(state, "deployment", lambda stack: {"resources": found})
    looks_up(monkeypatch, None)
    return found


def looks_up(patch: pytest.MonkeyPatch, answer: Any) -> None:
    def live(manifest: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    patch.setattr(live_objects, "lookup", lambda variables, access: live)


def said(*objects: dict[str, Any]) -> list[str]:
    found, unknown = quick_drift.of_objects({}, state.Access("kubeconfig"), "dev", LISTED, objects)
    assert not unknown
    return found


def test_an_object_as_it_was_applied_is_none(applied: list[dict[str, Any]]) -> None:
    assert said(live()) == []


def shorter(job: dict[str, Any]) -> None:
    job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 60


def another_argument(job: dict[str, Any]) -> None:
    job["spec"]["containers"][0]["args"] = ["--epochs=2"]


def no_arguments(job: dict[str, Any]) -> None:
    job["spec"]["containers"][0]["args"] = []


def more_memory(job: dict[str, Any]) -> None:
    job["spec"]["containers"][0]["resources"]["memory"] = "2Gi"


def no_mark(job: dict[str, Any]) -> None:
    del job["metadata"]["labels"]


DEADLINE = "spec.runPolicy.activeDeadlineSeconds"
EDITS: list[tuple[Change, str]] = [
    (shorter, f"{DEADLINE} is 60, 3600 was applied"),
    (another_argument, 'spec.containers[0].args[0] is "--epochs=2", "--epochs=1" was applied'),
    (no_arguments, 'spec.containers[0].args is [], ["--epochs=1"] was applied'),
    (more_memory, 'spec.containers[0].resources.memory is "2Gi", "1Gi" was applied'),
    (no_mark, 'metadata.labels.trainstack/stack is not there, "dev" was applied'),
]


@pytest.mark.parametrize(("edit", "line"), EDITS, ids=[edit.__name__ for edit, _ in EDITS])
def test_each_field_that_somebody_has_changed_is_told(
    applied: list[dict[str, Any]], edit: Change, line: str
) -> None:
    job = live()
    edit(job)
    assert said(job) == [f"PyTorchJob/kubeflow/mnist {line}: `make up` restores it"]


@pytest.mark.parametrize("section", ["spec", "data", "rules", "subjects", "webhooks", "roleRef"])
def test_whatever_an_object_consists_of_is_compared(section: str) -> None:
    applied = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, section: {"a": 1}}
    found = {**applied, "metadata": {"name": "any", "uid": "1"}}
    assert quick_drift.differences(applied, found) == []
    assert quick_drift.differences(applied, {**found, section: {}}) == [
        f"{section}.a is not there, 1 was applied"
    ]


def test_an_object_that_is_gone_is_missing(applied: list[dict[str, Any]]) -> None:
    assert said() == ["PyTorchJob/kubeflow/mnist is missing: `make up` creates it"]


def test_one_that_has_left_is_not_missing(applied: list[dict[str, Any]]) -> None:
    run = {"namespace": "kubeflow", "job": "mnist", "run": "mnist-1", "jobStatus": "Succeeded", agreed.TTL: 5}
    applied.append({"type": agreed.RUN, "urn": "run", "outputs": run})
    assert said() == []


def test_one_without_the_mark_is_looked_up(
    applied: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = live()
    no_mark(job)
    looks_up(monkeypatch, job)
    (line,) = said()
    assert "metadata.labels.trainstack/stack is not there" in line


@pytest.mark.parametrize("why", ["Error from server (Forbidden)", "a time-out"])
def test_what_cannot_be_looked_at_is_neither_missing_nor_as_it_was(
    applied: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    looks_up(monkeypatch, SetupError(f"cannot read it from the cluster: {why}"))
    found = quick_drift.of_objects({}, state.Access("kubeconfig"), "dev", LISTED, [])
    assert found == ([], [f"cannot read it from the cluster: {why}"])


def test_a_copy_in_an_objects_place_is_no_object_of_the_stack(applied: list[dict[str, Any]]) -> None:
    copy = live()
    copy["metadata"]["labels"] |= {labels.OWNER: "0" * 16}
    copy["metadata"]["managedFields"] = [{"manager": "kubectl-create", "operation": "Update"}]
    (line,) = said(copy)
    assert line.startswith("PyTorchJob/kubeflow/mnist is somebody's copy")


@pytest.mark.parametrize("mark", [{"delete": True}, {state.HALF_REPLACED: True}])
def test_what_is_to_go_may_be_gone(applied: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    applied[0] |= mark
    assert said() == []


def test_what_is_encrypted_is_not_compared() -> None:
    secret = {state.SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "x"}
    assert quick_drift.differences({"metadata": {}, "data": {"a": secret}}, {"data": {"a": "plain"}}) == []


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1", "1000m", True),
        (1, "1", True),
        ("0.5", "500m", True),
        ("1Gi", "1073741824", True),
        ("1k", "1e3", True),
        ("2E", "2E18", True),
        ("1Gi", "1G", False),
        ("1.2.3", "1.2.4", False),
        (None, [], True),
        (True, None, False),
        (True, "1", False),
    ],
)
def test_amounts_are_compared_as_amounts(one: Any, other: Any, equal: bool) -> None:
    found = quick_drift.differences({"metadata": {}, "spec": {"x": one}}, {"spec": {"x": other}})
    assert (found == []) is equal


@pytest.fixture
def last(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what the last update was."""
    monkeypatch.setattr(user_backend, "backend", lambda: None)

    def given(config: Any, failed: datetime | None = None) -> None:
        monkeypatch.setattr(quick_drift, "last_update", lambda stack: LastUpdate(config, NOON, failed))

    return given


def committed() -> dict[str, Any]:
    """The configuration of dev, as Pulumi's history would have it."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())["config"]
    return found


def test_a_stack_file_as_applied(last: Callable[..., None]) -> None:
    last(committed())
    (line,) = quick_drift.of_file("dev")
    assert line.startswith("the stack file is unchanged since the update of 2026-11-23 12:00")


def test_a_key_that_waits_is_named(last: Callable[..., None]) -> None:
    config = committed()
    config["trainstack:job"]["training"]["epochs"] = 9
    last(config, failed=NOON)
    assert quick_drift.of_file("dev") == [
        "the update of 2026-11-23 12:00 failed: run `make up`",
        "stack file: job.training.epochs: 9 -> 1 (job replaced), waits for `make up`",
    ]


def test_of_a_base_it_is_said_that_it_is_not_compared(
    last: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    last({agreed.EXTENDS: "base"})
    monkeypatch.setattr(quick_drift, "_changed_keys", lambda stack, applied: [])
    lines = quick_drift.of_file("dev")
    assert (
        "the earlier keys of the base file (`trainstack:extends`) are not recorded, so not compared: `make drift`"
        in lines[0]
    )
    assert len(lines) == 2


def test_of_many_keys_the_first_are_named(last: Callable[..., None]) -> None:
    config = committed()
    del config["trainstack:job"]
    last({**config, "trainstack:jobs": [{"name": f"job-{each}"} for each in range(9)]})
    lines = quick_drift.of_file("dev")
    assert len(lines) == quick_drift.MOST_KEYS + 1
    assert lines[-1] == "stack file: 5 more keys"


def test_a_configuration_that_cannot_be_read_is_no_answer(last: Callable[..., None]) -> None:
    last({"trainstack:job": {"name": 1}})
    with pytest.raises(SetupError, match="the configuration that was applied"):
        quick_drift.of_file("dev")


def test_a_backend_of_the_users_is_not_asked(
    applied: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_backend, "backend", lambda: "s3://theirs")
    monkeypatch.setattr(quick_drift, "last_update", lambda stack: pytest.fail("that is of our own backend"))
    assert len(quick_drift.of_file("dev")) == 1
    assert said() == []


FIRST = 1_795_415_002_453_779_759
Operation = tuple[str, str]


@pytest.fixture
def history() -> Iterator[Callable[..., None]]:
    """Let the history of `dev` hold these operations with their results, a minute after each other."""
    folder = quick_drift.HISTORY / "dev"
    folder.mkdir(parents=True)

    def holds(*operations: Operation) -> None:
        for place, (kind, result) in enumerate(operations):
            ended = NOON.timestamp() + 60 * place
            told = {"kind": kind, "result": result, "endTime": ended, "config": {"place": place}}
            (folder / f"dev-{FIRST + place}.history.json").write_text(json.dumps(told))
            (folder / f"dev-{FIRST + place}.checkpoint.json").write_text("{}")

    yield holds
    shutil.rmtree(folder)


UP, FAILED, DOWN = ("update", "succeeded"), ("update", "failed"), ("destroy", "succeeded")
REFRESH, IMPORT = ("refresh", "succeeded"), ("resource-import", "succeeded")


@pytest.mark.parametrize(
    ("operations", "place", "failed"),
    [
        ([UP], 0, None),
        ([UP, UP], 1, None),
        ([UP, REFRESH, IMPORT, ("refresh", "failed")], 0, None),
        ([UP, FAILED], 0, 1),
        ([UP, FAILED, REFRESH, FAILED], 0, 3),
        ([UP, FAILED, UP], 2, None),
        ([UP, DOWN, UP], 2, None),
    ],
)
def test_the_last_update_that_succeeded_counts(
    history: Callable[..., None], operations: list[Operation], place: int, failed: int | None
) -> None:
    history(*operations)
    found = quick_drift.last_update("dev")
    assert found is not None
    assert (found.config, found.ended) == ({"place": place}, NOON.replace(minute=place))
    assert found.failed == (None if failed is None else NOON.replace(minute=failed))


@pytest.mark.parametrize(
    "operations", [[], [FAILED], [UP, DOWN], [UP, ("destroy", "failed")], [UP, DOWN, REFRESH]]
)
def test_there_is_none(history: Callable[..., None], operations: list[Operation]) -> None:
    history(*operations)
    assert quick_drift.last_update("dev") is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kind": "update"', '{"kind": 1, "result": 2, "endTime": {}}']
)
def test_a_history_that_is_torn_tells_nothing(history: Callable[..., None], text: str) -> None:
    history(UP, UP)
    (quick_drift.HISTORY / "dev" / f"dev-{FIRST + 2}.history.json").write_text(text)
    assert quick_drift.last_update("dev") is None


def test_of_a_stack_that_was_never_up_there_is_none() -> None:
    assert quick_drift.last_update("never") is None
