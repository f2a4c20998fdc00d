"""What a review shows is what Pulumi would apply, and what a review refuses Pulumi does not apply."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import paths
from infra.config import ConfigError, from_file
from infra.config.load import ensure_one_place
from infra.config.shell_variables import CHANGES
from infra.job.manifest import run_of
from infra.review import folder, page, request
from infra.review.text import objects_in
from tests.preview.project import ABSENT, ROOT, Project
from tests.preview.test_stacks import JOB as PYTORCHJOB
from tests.unit.infra.samples import IMAGE, JOB

FAILED = (1, 255)
COPIED = ("infra", "storage", "trainer", "Dockerfile_training", ".dockerignore")
STACK: dict[str, Any] = {"job": JOB, "cluster": {"name": ABSENT}}


class Clone(Project):
    """A project with a copy of the program: its own data, sources and stacks."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (self.folder / "infra").unlink()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy(ROOT / name, self.folder / name)
        self.environment["PYTHONPATH"] = str(self.folder)
        self.stacks, self.base = self.folder / "stacks", root / "base" / "stacks"

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def render(self) -> None:
        """As `make review` does."""
        folder.write(self.stacks, "dev", folder.files(from_file(self.stack_file)))

    def keep(self) -> None:
        """Let what is there be the revision to compare with."""
        self.render()
        shutil.copytree(self.stacks, self.base)

    def read(self) -> None:
        """As a review does. Raises ConfigError."""
        ensure_one_place(self.folder)
        from_file(self.stack_file)

    def page(self) -> tuple[str, bool]:
        return request.text(self.stacks, page.Base(self.base, "`main`"), "0123456789abcdef")

    def run(self) -> str:
        """The run that Pulumi would start."""
        found = self.preview()
        assert found.status == 0, found.shown
        (job,) = [inputs for type_, inputs in found.inputs if type_ == PYTORCHJOB]
        return run_of(job)

    def rendered_run(self) -> str:
        jobs = (self.stacks / folder.RENDERED / "dev" / "jobs" / "jobs.yaml").read_text()
        return run_of(next(each for each in objects_in(jobs) if each["kind"] == "PyTorchJob"))


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    for name in CHANGES:  # set-up's record of what it has set is that of this clone, not of the one made here
        monkeypatch.delenv(name, raising=False)
    made = Clone(tmp_path)
    for name, value in (
        ("ROOT", made.folder),
        ("DATA", made.folder / "data"),
        ("STATE", made.folder / ".trainstack"),
    ):
        monkeypatch.setattr(paths, name, value)
    return made


def with_line(line: str) -> Callable[[Clone], None]:
    """A stack file with one more line below `config:`."""

    def write(clone: Clone) -> None:
        text = clone.stack_file.read_text()
        clone.stack_file.write_text(text.replace("config:\n", f"config:\n{line}\n", 1))

    return write


def with_text(old: str, new: str) -> Callable[[Clone], None]:
    def write(clone: Clone) -> None:
        before = clone.stack_file.read_text()
        assert old in before
        clone.stack_file.write_text(before.replace(old, new, 1))

    return write


def with_project(more: str) -> Callable[[Clone], None]:
    """The project's file with more lines."""
    return lambda clone: clone.write("Pulumi.yaml", (ROOT / "Pulumi.yaml").read_text() + more)


def in_json(clone: Clone) -> None:
    """Pulumi takes Pulumi.json before Pulumi.yaml, and with it the stacks' files in JSON."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    found = yaml.safe_load(clone.stack_file.read_text())
    found["config"]["trainstack:matrix"] = {"options": {"training.seed": [1, 2, 3]}}
    clone.write("Pulumi.json", json.dumps(project))
    clone.write("stacks/Pulumi.dev.json", json.dumps(found))


def elsewhere(clone: Clone) -> None:
    """Another folder with the stacks' files."""
    clone.write("elsewhere/Pulumi.dev.yaml", clone.stack_file.read_text().replace("epochs: 1", "epochs: 99"))
    project = (
        (ROOT / "Pulumi.yaml").read_text().replace("stackConfigDir: stacks", "stackConfigDir: elsewhere")
    )
    clone.write("Pulumi.yaml", project)


def another_document(clone: Clone) -> None:
    clone.stack_file.write_text(f"{clone.stack_file.read_text()}---\nconfig: {{}}\n")


MORE_JOBS = "config:\n  matrix:\n    value: {options: {training.seed: [1, 2, 3]}}\n"
REFUSED: dict[str, Callable[[Clone], None]] = {
    "image without the prefix": with_line("  image: {target: gpu}"),
    "matrix without the prefix": with_line("  matrix: {options: {training.seed: [1, 2, 3]}}"),
    "protected without the prefix": with_line("  protected: true"),
    "a key with and without the prefix": with_line(
        f"  trainstack:image: {{reference: '{IMAGE}'}}\n  image: {{target: gpu}}"
    ),
    "config in Pulumi.yaml": with_project(MORE_JOBS),
    "a committed Pulumi.json": in_json,
    "another stackConfigDir": elsewhere,
    "a seed that Pulumi rounds": with_text("epochs: 1", "epochs: 1\n      seed: 12345678901234567890"),
    "a duplicate key": with_text("epochs: 1", "epochs: 1\n      epochs: 99"),
    "an octal number": with_text("epochs: 1", "epochs: 0o17"),
    "a number in sixties": with_text("epochs: 1", "epochs: 1:30"),
    "a number with a word for it": with_text("epochs: 1", "epochs: 1_0"),
    "a second document": another_document,
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", REFUSED)
def test_what_a_review_refuses_is_not_applied(clone: Clone, case: str) -> None:
    clone.configure(STACK)
    clone.keep()
    REFUSED[case](clone)
    with pytest.raises(ConfigError):
        clone.read()
    found = clone.preview()
    assert found.status in FAILED, found.shown
    assert found.registered == []


def test_a_float_that_is_whole_is_the_integer_that_pulumi_takes(clone: Clone) -> None:
    clone.configure(STACK)
    with_text("epochs: 1", "epochs: 1e1")(clone)
    clone.keep()
    assert clone.page()[1]
    found = clone.preview()
    assert found.status == 0, found.shown
    (job,) = [inputs for type_, inputs in found.inputs if type_ == PYTORCHJOB]
    assert "--epochs=12" in json.dumps(job), "on the digits"
    assert "--epochs=10" in "".join(folder.on_disk(clone.stacks, "dev").values())


def test_the_run_of_a_clone_without_mnist_is_on_the_page(clone: Clone) -> None:
    """README's first change."""
    clone.configure(STACK)
    clone.keep()
    before = clone.run()
    with_text("digitsEpochs: 12", "digitsEpochs: 24")(clone)
    clone.render()
    shown, passed = clone.page()
    run = clone.run()
    assert run != before
    assert f"| `{run}`, on a machine without MNIST |" in shown
    assert passed


PROJECT = {"net.py": "pass\n", ".dockerignore": "notes\n", "notes": "mine\n"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "text"), [("net.py", "changed\n"), (".dockerignore", "\n"), ("added.py", "pass\n")]
)
def test_a_project_in_the_repository_is_reviewed_by_what_it_holds(clone: Clone, name: str, text: str) -> None:
    for each, content in PROJECT.items():
        clone.write(f"my-project/{each}", content)
    mnist: dict[str, Any] = {**JOB, "training": {"epochs": 1, "dataset": "fashion-mnist"}}
    clone.configure({**STACK, "job": mnist, "image": {"context": "my-project"}})
    clone.keep()
    before = clone.run()
    assert before == clone.rendered_run()
    clone.write(f"my-project/{name}", text)
    shown, passed = clone.page()
    assert not passed
    assert "**The committed rendering is stale.**" in shown
    clone.render()
    shown, passed = clone.page()
    run = clone.run()
    assert passed
    assert run == clone.rendered_run() != before
    assert f"| `{run}` |" in shown


def test_what_a_cluster_of_others_may_lack_is_said(clone: Clone) -> None:
    """With no cluster in reach: a review takes namespace and operator to be there, a preview takes nothing to be."""
    existing = {"cluster": {"kind": "existing"}, "image": {"reference": IMAGE}, "job": JOB}
    clone.configure(existing)
    found = clone.preview()
    assert found.status == 0, found.shown
    assert "kubernetes:core/v1:Namespace" in found.registered
    said = "no review shows these objects; they are created if the cluster lacks them: Namespace/kubeflow"
    assert said in found.shown
