"""The closing lines of `make up`."""

from __future__ import annotations

import pytest

from toolchain.operating import up
from toolchain.steps import SetupError

ONE = {
    "namespace": "kubeflow",
    "jobName": "pytorch-simple",
    "jobStatus": "Succeeded",
    "modelPath": "/somewhere/models/dev/mnist_cnn.pt",
    "accuracy": 0.9698,
    "loss": 0.0961,
}


def test_four_lines_for_one_job() -> None:
    assert up.closing_lines(ONE) == [
        "job: kubeflow/pytorch-simple Succeeded",
        "model: /somewhere/models/dev/mnist_cnn.pt",
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


def test_a_job_that_is_to_leave_no_model_says_so() -> None:
    assert up.closing_lines({**ONE, "modelPath": None})[1] == "model: none"
