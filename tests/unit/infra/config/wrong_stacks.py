"""Wrong stack files, each with what its error has to say: one table for the program and for real previews."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pulumi
import pytest
import yaml

from infra import paths
from tests.unit.infra.recorder import PROGRAM, Recorder, hand_over


class Case(NamedTuple):
    """The sections of a wrong stack file, and what its error has to say: a row of wrong_stacks.yaml."""

    sections: dict[str, Any]
    key: str
    value: str
    allowed: str
    fix: str

    def check(self, text: str) -> None:
        """Assert that the error `text`, which begins with the file's name, says all that a user needs."""
        first, *rest = text.splitlines()
        assert first.startswith("stacks/Pulumi.dev.yaml: "), f"the file is named: {text}"
        named = self.key if self.key.startswith("policy") else f"trainstack:{self.key} = "
        assert named in first, f"the key is named: {text}"
        assert self.value in first, f"the bad value is shown: {text}"
        assert self.allowed in text, f"what is allowed is said: {text}"
        fixes = [line for line in rest if line.lstrip().startswith("fix: ")]
        assert any(word in "\n".join(fixes) for word in self.fix.split("|")), f"the fix is said: {text}"


def cases(file: str) -> dict[str, Case]:
    """The rows of a file in this folder, by their names."""
    table = yaml.safe_load((Path(__file__).parent / file).read_text())
    return {name: Case(row["stack"], *row["error"]) for name, row in table.items() if name != "named"}


CASES = cases("wrong_stacks.yaml")


def refusal(
    sections: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: dict[str, Any] | None = None,
) -> str:
    """What the program says of stack dev, which extends `base` in stacks/base.yaml; it registers nothing."""
    recorder = Recorder()
    monkeypatch.setattr(paths, "DATA", folder / "data")
    monkeypatch.setattr("infra.operators.manifests", lambda stack, planned: [])
    pulumi.runtime.set_mocks(recorder, project="trainstack", stack="dev", preview=True)
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(folder))
    monkeypatch.setenv("PULUMI_CONFIG", "")
    hand_over(sections, folder)
    if base is not None:
        config = {f"trainstack:{key}": value for key, value in base.items()}
        (folder / "stacks" / "base.yaml").write_text(yaml.safe_dump({"config": config}, sort_keys=False))
    with pytest.raises(pulumi.RunError) as refused:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert recorder.registered == [], "nothing is registered"
    return str(refused.value)
