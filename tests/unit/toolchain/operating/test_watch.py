"""`make watch`: lines of the program's watching module, and its exit status."""

from __future__ import annotations

import sys

import pytest

from toolchain import stack_files
from toolchain.operating import environment, program_calls
from toolchain.runs import report_timeline
from toolchain.tools import venv

LINES = [
    "j: 2 epochs",
    "j: Running",
    "j: Train Epoch: 1 [0/9 (0%)]\tloss=2",
    "j: accuracy=0.5",
    "j: loss=0.1",
    "odd",
]


@pytest.mark.parametrize("status", [0, 1, 2])
def test_lines_are_short_and_the_status_is_the_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    completed: list[object] = []
    for module, name, value in (
        (stack_files, "check", lambda _: None),
        (venv, "ensure", lambda: None),
        (
            venv,
            "command",
            lambda *_: [sys.executable, "-c", f"print({chr(10).join(LINES)!r}); exit({status})"],
        ),
        (environment, "for_stack", lambda *_: {}),
        (report_timeline, "complete", completed.append),
    ):
        monkeypatch.setattr(module, name, value)
    assert program_calls.watch("dev") == status
    told = capsys.readouterr().err.splitlines()
    assert told[:3] == ["j: Running", "j: epoch 1 of 2: accuracy=0.5 loss=0.1", "odd"]
    assert told[3].startswith(f" {'✗' if status else '✓'} jobs of dev (")
    assert len(completed) == 1
