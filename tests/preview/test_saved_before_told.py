"""Pulumi tells the outputs of a new resource once they are in the state: only then is a cluster called finished."""

from __future__ import annotations

from pathlib import Path

from tests.preview.project import environment, pulumi

MADE = 8
PROGRAM = f"""
import json
import os
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

STATE, TOLD = Path(os.environ["STATE"]), Path(os.environ["TOLD"])


class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("made", {{**props, "instance": "one"}})


class Made(Resource):
    instance: pulumi.Output[str]

    def __init__(self, name):
        super().__init__(Provider(), name, {{"instance": None}})


def look(name):
    def told(instance):
        resources = json.loads(STATE.read_text())["checkpoint"]["latest"]["resources"]
        saved = [each["outputs"]["instance"] for each in resources if each["urn"].endswith(f"::{{name}}")]
        with TOLD.open("a") as file:
            file.write(f"{{saved == [instance]}}\\n")

    return told


for number in range({MADE}):
    Made(f"made-{{number}}").instance.apply(look(f"made-{{number}}"))
"""


def test_what_is_told_is_saved(tmp_path: Path) -> None:
    """All are made at once, so that the state is written while others are told."""
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: told\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    variables = {
        **environment(tmp_path),
        "STATE": str(tmp_path / "state" / ".pulumi" / "stacks" / "told" / "dev.json"),
        "TOLD": str(tmp_path / "told"),
    }
    for words in (["stack", "init", "dev"], ["up", "--yes", "--skip-preview"]):
        done = pulumi(tmp_path, variables, *words)
        assert done.returncode == 0, done.stdout
    assert (tmp_path / "told").read_text().splitlines() == ["True"] * MADE
