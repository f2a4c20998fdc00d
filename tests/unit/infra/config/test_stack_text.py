"""Keys are set in a stack file's text, and nothing else of it changes."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml

from infra import paths
from infra.config import ConfigError
from infra.config.load import read
from infra.config.stack_text import literals, with_values

FILE = "stacks/Pulumi.test.yaml"
TRAINING = ("config", "trainstack:job", "training")
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
BLOCK = """\
# first line
config:
  trainstack:job:   # the job
    name: "mnist"
    training:
        epochs:   1      # one is enough
        lr: 1e-3
    # between two keys
    args: [a,
      b]
# last line, without an end"""


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[:2] in ("- ", "+ ")]


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    after = with_values(BLOCK, TRAINING, {"epochs": "20"}, FILE)
    assert changed_lines(BLOCK, after) == [
        "-         epochs:   1      # one is enough",
        "+         epochs:   20      # one is enough",
    ]


def test_a_new_key_follows_the_last_one() -> None:
    after = with_values(BLOCK, TRAINING, {"seed": "7", "gamma": "0.7"}, FILE)
    assert changed_lines(BLOCK, after) == ["+         seed: 7", "+         gamma: 0.7"]
    assert "lr: 1e-3\n        seed: 7\n" in after


LAYOUTS = {
    "flow": "config: {trainstack:job: {name: mnist, training: {epochs: 1}}}\n",
    "flow in block": "config:\n  trainstack:job:\n    name: mnist\n    training: {epochs: 1} # short\n",
    "without training": "config:\n  trainstack:job:\n    name: mnist # the name\n    replicas:\n      worker: 2\n",
    "without training in flow": "config:\n  trainstack:job: {name: mnist}\n",
    "at the end without a line's end": "config:\n  trainstack:job:\n    training:\n      epochs: 1",
    "quoted": "config:\n  'trainstack:job':\n    'name': mnist\n    'training':\n      'epochs': '1'\n",
    "no scalar to follow": "config:\n  trainstack:job:\n    args: [a]\n    env: {A: x}\n",
    "no scalar to follow in flow": "config: {trainstack:job: {args: [a]}}\n",
    "in a list, no scalar": "config:\n  trainstack:job:\n    training:\n      momentum: 0\n  other:\n  - a: []\n",
    "without the job": "config:\n  trainstack:extends: base\n  trainstack:cluster:\n    workers: 2\n",
    "without the job in flow": "config: {trainstack:extends: base}\n",
    "salt": "encryptionsalt: v1:abc\nconfig:\n  trainstack:job:\n    name: mnist\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "values", [{"epochs": "3"}, {"seed": "7"}, {"epochs": "3", "seed": "7", "lr": "0.5"}]
)
def test_each_layout_takes_each_key(layout: str, values: dict[str, str]) -> None:
    before = LAYOUTS[layout]
    after = with_values(before, TRAINING, values, FILE)
    found = yaml.safe_load(after)["config"]["trainstack:job"]["training"]
    assert found.items() >= {key: yaml.safe_load(value) for key, value in values.items()}.items()
    assert len(changed_lines(before, after)) <= 2 + 2 * len(values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", [{"epochs": "3"}, {"seed": "7", "lr": "0.5"}])
@pytest.mark.parametrize("lines", ["all", "the first"])
def test_each_line_keeps_its_end(layout: str, values: dict[str, str], lines: str) -> None:
    """As Windows' editors write them, or two editors in turn."""
    before = LAYOUTS[layout].replace("\n", "\r\n", -1 if lines == "all" else 1)
    after = with_values(before, TRAINING, values, FILE)
    kept = [line for line in before.splitlines(keepends=True) if line not in after.splitlines(keepends=True)]
    assert len(kept) <= 1, "the one that has changed, or that got an end"
    if lines == "all" and "\n" in before.rstrip():
        assert "\n" not in after.replace("\r\n", "")


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_the_committed_stack_files_keep_all_their_lines(path: Path) -> None:
    before = path.read_text()
    after = with_values(before, TRAINING, {"momentum": "0.25", "epochs": "99"}, path.name)
    removed = [line for line in changed_lines(before, after) if line.startswith("- ")]
    assert all(" epochs: " in line for line in removed)
    assert len(removed) <= 1
    assert yaml.safe_load(after)["config"]["trainstack:job"]["training"]["momentum"] == 0.25


def test_a_job_of_several_is_found_by_its_place() -> None:
    before = "config:\n  trainstack:jobs:\n    - name: a\n    - name: b\n      training:\n        epochs: 1\n"
    for place, name in enumerate(("a", "b")):
        after = with_values(before, ("config", "trainstack:jobs", place, "training"), {"epochs": "2"}, FILE)
        jobs = yaml.safe_load(after)["config"]["trainstack:jobs"]
        assert [job.get("training", {}).get("epochs") for job in jobs] == (
            [2, 1] if name == "a" else [None, 2]
        )


REFUSED = {
    "an alias": "x: &t {epochs: 1}\nconfig:\n  other: *t\n  trainstack:job:\n    name: a\n    training: *t\n",
    "anchors of others": (
        "config:\n  other: {first: &a 1, second: &b 2}\n"
        "  trainstack:job:\n    training:\n      epochs: *a\n      lr: *b\n"
    ),
    "an anchor for others": "config:\n  trainstack:job:\n    training:\n      epochs: &a 1\n      seed: *a\n",
    "empty": "config:\n  trainstack:job:\n    name: mnist\n    training:\n",
    "text": 'config:\n  trainstack:job: \'{"name": "mnist"}\'\n',
    "empty in flow": "config:\n  trainstack:job: {name: mnist, training: {}}\n",
}


@pytest.mark.parametrize("layout", REFUSED)
def test_a_layout_that_would_change_more_is_refused_with_what_to_write(layout: str) -> None:
    with pytest.raises(
        ConfigError, match=r"write them yourself below config\.trainstack:job\.training: epochs: 2"
    ):
        with_values(REFUSED[layout], TRAINING, {"epochs": "2"}, FILE)


def test_literals_are_as_they_are_written(tmp_path: Path) -> None:
    assert literals(BLOCK, TRAINING) == {"epochs": "1", "lr": "1e-3"}
    assert literals(BLOCK, ("config", "trainstack:job", "gone")) == {}
    (tmp_path / "file").write_text(BLOCK)
    assert read(tmp_path / "file")["job"]["training"]["epochs"] == 1


@pytest.mark.parametrize(
    "value", ["&a 1", "!!int 1", "!!str 1", "|\n  1", "'1\n  2'", "{a: 1}", "[1]", "*t", "&a\n  1"]
)
def test_what_cannot_stand_elsewhere_is_no_literal(value: str) -> None:
    text = f"top: &t 1\njob:\n epochs: {value}\n lr: 'x'\n"
    assert literals(text, ("job",)) == {"lr": "'x'"}
