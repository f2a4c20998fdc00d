"""`make up`: its closing lines, and when Pulumi runs again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from toolchain import stack_files
from toolchain.machine import preflight
from toolchain.operating import (
    api_server,
    doctor,
    environment,
    live_view,
    origin,
    program_calls,
    pulumi_cli,
    setup,
    state,
    time_estimate,
    up,
    update,
    user_backend,
)
from toolchain.operating.state import Access
from toolchain.paths import ROOT
from toolchain.steps import SetupError

ONE = {
    "namespace": "kubeflow",
    "jobName": "pytorch-simple",
    "jobStatus": "Succeeded",
    "modelPath": "models/dev/mnist_cnn.pt",
    "accuracy": 0.9698,
    "loss": 0.0961,
}


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (ONE["modelPath"], f"{ROOT}/models/dev/mnist_cnn.pt"),
        ("/old/mnist_cnn.pt", "/old/mnist_cnn.pt"),  # of an older state
        (None, "none"),
    ],
)
def test_four_lines_for_one_job(model: str | None, told: str) -> None:
    assert up.closing_lines({**ONE, "modelPath": model}) == [
        "job: kubeflow/pytorch-simple Succeeded",
        f"model: {told}",
        "accuracy=0.9698",
        "loss=0.0961",
    ]


def test_four_lines_for_each_of_several_jobs() -> None:
    other = {**ONE, "jobName": "other", "accuracy": 0.5}
    lines = up.closing_lines({"namespace": "kubeflow", "jobs": {"pytorch-simple": ONE, "other": other}})
    assert len(lines) == 8
    assert lines[4] == "job: kubeflow/other Succeeded"
    assert lines[6] == "accuracy=0.5"


def test_a_stack_that_says_nothing_of_a_model_is_an_error() -> None:
    with pytest.raises(SetupError, match="pytorch-simple"):
        up.closing_lines({key: value for key, value in ONE.items() if key != "modelPath"})


@pytest.mark.parametrize(
    ("access", "problems", "waits", "is_back"),
    [
        (None, [], False, False),
        (Access("config"), [None], False, False),
        (Access("config"), ["refused", None], True, True),
        (Access("config"), ["Forbidden", "Forbidden"], True, False),
    ],
)
def test_pulumi_runs_again_only_after_an_api_server_that_was_away(
    monkeypatch: pytest.MonkeyPatch,
    access: Access | None,
    problems: list[str | None],
    waits: bool,
    is_back: bool,
) -> None:
    waited: list[Access] = []
    answers = iter(problems)
    monkeypatch.setattr(pulumi_cli, "deployment", lambda *_: {})
    monkeypatch.setattr(state, "access", lambda _: access)
    monkeypatch.setattr(api_server, "problem", lambda *_: next(answers))
    monkeypatch.setattr(api_server, "wait", lambda _, waits_for: waited.append(waits_for))
    assert up._came_back({}, "dev") is is_back
    assert waited == ([access] if waits else [])


@pytest.fixture
def names_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A stack file that names another server than the kubeconfig has; what Pulumi was asked."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("clusters: [{name: a, cluster: {server: https://here}}]\ncurrent-context: a\n")
    with kubeconfig.open("a") as file:
        file.write("contexts: [{name: a, context: {cluster: a, user: a}}]\n")
    section = f"{{kind: existing, kubeconfig: {kubeconfig}, server: https://reviewed}}"
    (tmp_path / "Pulumi.dev.yaml").write_text(f"config:\n  trainstack:cluster: {section}\n")
    asked: list[str] = []
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(up, "_set_up", lambda *_, **__: {})
    monkeypatch.setattr(pulumi_cli, "deployment", lambda *_: {"pending_operations": [{}]})
    monkeypatch.setattr(setup, "prepare_operators", lambda _: {})
    monkeypatch.setattr(program_calls, "repair_cluster", lambda *_: None)
    monkeypatch.setattr(pulumi_cli, "stream", lambda *words: asked.append(words[1]))
    monkeypatch.setattr(pulumi_cli, "edit_state", lambda *_: asked.append("edit"))
    yield asked
    assert asked == []


@pytest.mark.parametrize("verb", ["up", "down"])
def test_neither_up_nor_down_touches_another_cluster_than_the_named_one(
    names_another: list[str], verb: str
) -> None:
    with pytest.raises(SetupError, match="server = 'https://reviewed'") as refused:
        up.prepare_stack("dev") if verb == "up" else up._destroy({}, {}, "dev", lambda _: None)
    assert "https://here" in str(refused.value)


@pytest.mark.parametrize(
    ("protected", "verbs"), [(False, ["up"]), (True, ["history", "preview", "review", "up"])]
)
def test_a_protected_stack_is_updated_by_a_plan_in_every_round(
    monkeypatch: pytest.MonkeyPatch, protected: bool, verbs: list[str]
) -> None:
    ran: list[tuple[str, ...]] = []

    def stream(_: Mapping[str, str], *arguments: str) -> int:
        ran.append(arguments)
        return 0

    def twice(variables: Mapping[str, str], stack: str, pulumi_up: update.Run, _: object) -> None:
        assert [pulumi_up(variables, *options) for options in (("--refresh",), ())] == [0, 0]

    monkeypatch.setattr(update, "ensure_contained", lambda _, stack: ran.append(("history", stack)))
    monkeypatch.setattr(environment, "is_protected", lambda stack: protected)
    monkeypatch.setattr(pulumi_cli, "stream", stream)
    monkeypatch.setattr(update, "update", twice)
    up._update({}, "gpu", {}, lambda: ran.append(("review",)))
    assert [arguments[0] for arguments in ran] == verbs * 2
    ran = [arguments for arguments in ran if arguments[0] in ("preview", "up")]
    steps = 2 if protected else 1
    assert ["--refresh" in arguments for arguments in ran] == [True] * steps + [False] * steps
    files = [word for arguments in ran for word in arguments if word.endswith("plan.json")]
    assert files[::2] == files[1::2]
    assert len(set(files)) == (2 if protected else 0), "each round has a plan of its own"


def test_a_plan_that_cannot_be_made_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def stream(_: Mapping[str, str], verb: str, *arguments: str) -> int:
        ran.append(verb)
        return 255

    monkeypatch.setattr(pulumi_cli, "stream", stream)
    assert update.by_plan({}, "gpu", (), (), lambda: None) == 255
    assert ran == ["preview"]


def test_the_phases_that_took_longest_are_told_in_their_order() -> None:
    times = [(str(number), float(number % 5)) for number in range(25)]
    told = up.longest(times)
    assert len(told) == up.MOST_TIMES
    assert [each for each in times if each in told] == told
    assert min(seconds for _, seconds in told) >= 3.0
    assert (up.longest(times[:3]), up.longest([])) == (times[:3], [])
    assert up.took(7.25, [("set-up", 1.0), ("a look", 0.5), ("pulumi up", 6.04)]) == (
        "took 7.2 s, longest: set-up 1.0 s, pulumi up 6.0 s"
    )
    assert up.took(0.5, []) == "took 0.5 s"


def test_a_stack_that_is_up_is_updated_and_its_new_state_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `make sweep` does between trials: no set-up, but under the lock of the clone."""
    told: list[str] = []
    states: list[state.Deployment] = [{"resources": [{"type": "old"}]}, {"resources": [{"type": "new"}]}]

    @contextmanager
    def lock() -> Iterator[None]:
        told.append("locked")
        yield
        told.append("free")

    monkeypatch.setattr(setup, "project_lock", lock)
    monkeypatch.setattr(environment, "load", dict)
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {"PATH": stack})
    monkeypatch.setattr(pulumi_cli, "deployment", lambda *_: states[len(told) - 1])
    monkeypatch.setattr(up, "_update", lambda variables, *_: told.append(variables["PATH"]))
    assert up.update_again("dev", lambda: None) is states[1]
    assert told == ["locked", "dev", "free"]


def test_a_stack_that_somebody_has_taken_down_is_not_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pulumi up` would make another cluster, without what `make up` prepares."""
    monkeypatch.setattr(setup, "project_lock", nullcontext)
    monkeypatch.setattr(environment, "load", dict)
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {})
    monkeypatch.setattr(pulumi_cli, "deployment", lambda *_: {"resources": []})
    monkeypatch.setattr(up, "_update", lambda *_: pytest.fail("it was updated"))
    with pytest.raises(SetupError, match="stack dev was taken down"):
        up.update_again("dev", lambda: None)


def test_an_update_that_fails_is_told_although_the_state_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A backend of the user's may be away: that is why the update has failed."""
    states: list[state.Deployment] = [{"resources": []}]

    def deployment(*_: object) -> state.Deployment:
        if states:
            return states.pop()
        raise SetupError("the backend does not answer")

    def fail(*_: object) -> None:
        raise SetupError("`pulumi up` failed")

    for module, name in (
        *((stack_files, "check"), (user_backend, "check"), (up, "_forget_left_behind")),
        *((time_estimate, "estimate"), (doctor, "ensure_node_possible"), (origin, "begin")),
    ):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(setup, "project_lock", nullcontext)
    monkeypatch.setattr(preflight, "watched", nullcontext)
    monkeypatch.setattr(live_view, "shown", lambda: nullcontext(live_view.LiveView()))
    monkeypatch.setattr(live_view.LiveView, "begin", lambda _: None)
    monkeypatch.setattr(up, "prepare_stack", lambda _: {})
    monkeypatch.setattr(pulumi_cli, "deployment", deployment)
    monkeypatch.setattr(up, "_update", fail)
    with pytest.raises(SetupError, match="pulumi up"):
        up.up("dev", None, lambda _: lambda: None)
