"""What `make plan` learns of a stack's job from the stack's own program and from the trainer's options."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.planning import loopback, stack_job
from toolchain.planning.fit import AllReduce
from toolchain.planning.stack_job import Job
from toolchain.steps import SetupError
from toolchain.tools import venv

KNOWN = {
    "dev": Job("pytorch-simple", 2, 1, 0, "gloo", True, "lenet", 64, False),
    "gpu": Job("pytorchjob-mnist", 3, 4, 1, "nccl", False, "convnet", 64, False),
    "nccl": Job("pytorch-dist-mnist-nccl", 2, 4, 1, "nccl", False),
    "small-gpt": Job("small-gpt", 2, 1, 0, "gloo", True, "gpt:GPT", 32, True),
}


@pytest.mark.parametrize("stack", KNOWN)
def test_a_job_is_as_its_stack_file_and_the_trainer_say(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "ensure", lambda: None)
    assert stack_job.job(stack, "") == KNOWN[stack]


@pytest.mark.parametrize(("stack", "name", "said"), [("none", "", "no stack"), ("dev", "x", "no job x")])
def test_what_is_not_there_is_refused(
    stack: str, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv, "ensure", lambda: None)
    with pytest.raises(SetupError, match=said):
        stack_job.job(stack, name)


def test_a_wrong_option_is_told_in_the_trainer_s_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if "-c" in command:
            return subprocess.CompletedProcess(command, 2, "", "argument --recipe: invalid choice")
        listed = '[{"name": "a", "ranks": 1, "cpus": 0.5, "gpus": 0, "backend": "gloo", "here": true, "options": []}]'
        return subprocess.CompletedProcess(command, 0, listed, "")

    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(stack_job.subprocess, "run", run)  # type: ignore[attr-defined]
    with pytest.raises(SetupError, match="invalid choice"):
        stack_job.job("dev", "")


class Answering(Engine):
    """An engine with one trainer image, which answers a probe."""

    def output(self, *arguments: str) -> str:
        if arguments[0] == "images":
            return "1234\n5678"
        assert arguments[: arguments.index("1234") + 1] == (
            "run",
            "--rm",
            "--network=none",
            "--entrypoint=python3",
            "1234",
        )
        assert arguments[-2] == "2" or arguments[-1] == "2"
        return (
            '[{"ranks": 2, "bytes": 4096, "seconds": 2e-4}, {"ranks": 2, "bytes": 8388608, "seconds": 9e-3}]'
        )


def test_the_probe_runs_in_the_newest_trainer_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find", lambda: Answering("docker", ours=False))
    monkeypatch.setattr(loopback, "cores", lambda: 2)
    found = loopback.measure()
    assert found.name == "loopback"
    assert 5e-5 < found.between.latency_s < 2e-4
    assert 5e8 < found.between.bandwidth < 2e9
    assert "measured now" in found.source


@pytest.mark.parametrize("has_engine", [False, True])
def test_without_an_image_the_probe_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, has_engine: bool
) -> None:
    empty = Engine("docker", ours=False)
    monkeypatch.setattr(Engine, "output", lambda *_: "")
    monkeypatch.setattr(engine, "find", lambda: empty if has_engine else None)
    with pytest.raises(SetupError, match="--link"):
        loopback.measure()


def test_a_probe_that_tells_nothing_is_an_error() -> None:
    with pytest.raises(SetupError, match="of no use"):
        loopback.fabric([AllReduce(2, 4096, 1e-3)])


def test_the_probe_is_a_program_that_python_can_read() -> None:
    compile(loopback.PROBE.read_text(), loopback.PROBE.name, "exec")
