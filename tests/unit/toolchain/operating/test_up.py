"""`make up`: its closing lines, and when Pulumi runs again."""

from __future__ import annotations

import pytest

from toolchain.operating import api_server, state, up
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


def test_four_lines_for_one_job() -> None:
    assert up.closing_lines(ONE) == [
        "job: kubeflow/pytorch-simple Succeeded",
        f"model: {ROOT}/models/dev/mnist_cnn.pt",
        "accuracy=0.9698",
        "loss=0.0961",
    ]


def test_the_whole_path_of_an_older_state_stays() -> None:
    assert up.closing_lines({**ONE, "modelPath": "/old/mnist_cnn.pt"})[1] == "model: /old/mnist_cnn.pt"


def test_four_lines_for_each_of_several_jobs() -> None:
    other = {**ONE, "jobName": "other", "accuracy": 0.5}
    lines = up.closing_lines({"namespace": "kubeflow", "jobs": {"pytorch-simple": ONE, "other": other}})
    assert len(lines) == 8
    assert lines[4] == "job: kubeflow/other Succeeded"
    assert lines[6] == "accuracy=0.5"


def test_a_stack_that_says_nothing_of_a_model_is_an_error() -> None:
    with pytest.raises(SetupError, match="pytorch-simple"):
        up.closing_lines({key: value for key, value in ONE.items() if key != "modelPath"})


def test_a_job_that_is_to_leave_no_model_says_so() -> None:
    assert up.closing_lines({**ONE, "modelPath": None})[1] == "model: none"


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
    monkeypatch.setattr(up, "_deployment", lambda *_: {})
    monkeypatch.setattr(state, "access", lambda _: access)
    monkeypatch.setattr(api_server, "problem", lambda *_: next(answers))
    monkeypatch.setattr(api_server, "wait", lambda _, waits_for: waited.append(waits_for))
    assert up._came_back({}, "dev") is is_back
    assert waited == ([access] if waits else [])
