"""One page about a pull request: whatever makes a stack apply something else is shown, or fails."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import agreed, operators, paths
from infra.config import ConfigError, from_file
from infra.review import folder, page, request, text

COMMENT = paths.ROOT / "ci" / "comment.py"
COMMIT = "0123456789abcdef"
DEV = "config:\n  trainstack:job: {name: mnist}\n"
OWN = "config:\n  trainstack:image: {context: my-project}\n  trainstack:job: {name: own, model: null}\n"
CONFLICT = "<<<<<<< ours\na: 1\n=======\na: 2\n>>>>>>> theirs\n"


class Request:
    """A clone with two stacks, freshly rendered, and what its base has below stacks/."""

    def __init__(self, root: Path) -> None:
        self.root, self.stacks, self.base = root, root / "stacks", root / "base" / "stacks"
        self.write("Dockerfile_training", "FROM x AS cpu\n")
        self.write(".dockerignore", "*\n!trainer\n")
        self.write("trainer/train.py", "pass\n")
        self.write("my-project/net.py", "pass\n")
        self.write("stacks/Pulumi.dev.yaml", DEV)
        self.write("stacks/Pulumi.own.yaml", OWN)
        for stack in ("dev", "own"):
            self.render(stack)
        shutil.copytree(self.stacks, self.base)

    def write(self, name: str, content: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def render(self, stack: str) -> None:
        """As `make review` does."""
        folder.write(self.stacks, stack, folder.files(from_file(self.stacks / f"Pulumi.{stack}.yaml")))

    def page(self) -> tuple[str, bool]:
        return request.text(self.stacks, page.Base(self.base, "`main`"), COMMIT)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Without the operator's manifests and schemas."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(operators, "manifests", lambda stack, planned: [])
    monkeypatch.setattr(folder, "definitions", lambda stack, root=None: {})
    monkeypatch.delenv(agreed.OPENAPI, raising=False)
    return Request(tmp_path)


def test_the_heads_of_all_stacks_come_before_all_details(clone: Request) -> None:
    """A site cuts a long page at its end."""
    clone.write("trainer/train.py", "changed\n")
    clone.render("dev")
    shown, _ = clone.page()
    heads, details = shown.split("## In stack `dev`")
    for heading in ("Replaced", "Lost", "Cost", "Checks"):
        assert heads.count(f"### {heading}\n") == 2
    assert heads.count("is stale") == 1
    assert "### Objects" not in heads
    assert details.count("### Objects") == 2


@pytest.mark.slow(reason="two hundred jobs are rendered three times")
def test_of_two_hundred_jobs_a_site_shows_what_the_change_does(clone: Request) -> None:
    """Another image for each of them: the page is longer than GitHub takes."""
    many = f"{DEV}  trainstack:matrix: {{options: {{training.seed: {list(range(200))}}}}}\n"
    clone.write("stacks/Pulumi.dev.yaml", many)
    clone.render("dev")
    shutil.rmtree(clone.base)
    shutil.copytree(clone.stacks, clone.base)
    clone.write("trainer/train.py", "changed\n")
    for stack in ("dev", "own"):
        clone.render(stack)
    shown, _ = clone.page()
    comment = runpy.run_path(str(COMMENT))
    most = comment["MOST"]
    assert len(shown) > most
    cut = comment["shortened"](shown, most)
    for heading in ("Replaced", "Lost", "Cost", "Checks"):
        assert cut.count(f"### {heading}\n") == 2
    assert "| 160 more | 320 | - | - | 0 | " in cut


def headings(shown: str) -> list[str]:
    return [line.removeprefix("## ") for line in shown.splitlines() if line.startswith("## Stack")]


def test_without_a_change_the_page_says_so(clone: Request) -> None:
    shown, passed = clone.page()
    assert passed
    assert shown == f"{agreed.REQUEST_MARK}\nThis is about commit `{COMMIT[:12]}`.\n\n{request.UNCHANGED}\n"
    assert runpy.run_path(str(COMMENT))["MARK"] == agreed.REQUEST_MARK


SOURCES = {
    "Dockerfile_training": ["dev", "own"],
    ".dockerignore": ["dev", "own"],
    "trainer/train.py": ["dev", "own"],
    "trainer/added.py": ["dev", "own"],
    "my-project/net.py": ["own"],
    "my-project/added.py": ["own"],
    "my-project/.dockerignore": ["own"],
}
"""A file that goes into an image -> the stacks that have another image then."""


@pytest.mark.parametrize("name", SOURCES)
def test_what_an_image_is_made_of_has_its_stacks_reviewed(clone: Request, name: str) -> None:
    clone.write(name, "changed\n")
    shown, passed = clone.page()
    assert not passed
    assert headings(shown) == [f"Stack `{stack}`" for stack in SOURCES[name]]
    assert shown.count("**The committed rendering is stale.** Run `make review STACK=") == len(SOURCES[name])
    assert "+++ fresh/rendered/own/" in shown, "the difference"
    for stack in SOURCES[name]:
        clone.render(stack)
    shown, passed = clone.page()
    assert passed
    assert headings(shown) == [f"Stack `{stack}`" for stack in SOURCES[name]]
    assert (request.OTHERS in shown) is (len(SOURCES[name]) == 1)


def test_another_program_has_all_stacks_reviewed(clone: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another version of a package in requirements.lock may write YAML."""
    monkeypatch.setattr(text, "WIDTH", 40)
    shown, passed = clone.page()
    assert (passed, headings(shown)) == (False, ["Stack `dev`", "Stack `own`"])


STRANGERS = (
    "rendered/shared/00-crd.yaml",
    "rendered/note.yaml",
    "rendered/other/kustomization.yaml",
    "note.yaml",
    "Pulumi.größe.yaml",
    "Pulumi.`id`.yaml",
    "Pulumi.$(id).yaml",
    "Pulumi.a b.yaml",
    "Pulumi.a\nb.yaml",
    "Pulumi.yaml",
    "Pulumi.dev.yml",
    "Pulumi.dev.yaml.orig",
    "other/Pulumi.dev.yaml",
)


def test_files_of_no_stack_fail_and_are_named(clone: Request) -> None:
    for name in STRANGERS:
        clone.write(f"stacks/{name}", "kind: Namespace\n")
    shown, passed = clone.page()
    assert not passed
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [
        f"- {page.code(name)}" for name in sorted(STRANGERS)
    ]
    assert request.strangers(clone.stacks, {"dev", "own"}) == sorted(STRANGERS)


@pytest.mark.parametrize("name", ["rendered", "rendered/dev"])
def test_a_link_to_other_files_fails(clone: Request, name: str) -> None:
    place = clone.stacks / name
    shutil.move(place, clone.root / "elsewhere")
    place.symlink_to(clone.root / "elsewhere")
    assert clone.page()[1] is False


EXTRA = [
    f"rendered/dev/{name}"
    for name in ("99-extra.yaml", "more/extra.yml", "extra.json", ".hidden.yaml", "note")
]


def test_files_that_a_stack_does_not_render_fail_and_are_shown(clone: Request) -> None:
    for name in EXTRA:
        clone.write(f"stacks/{name}", "kind: Namespace\n")
    shown, passed = clone.page()
    assert (passed, headings(shown)) == (False, ["Stack `dev`"])
    assert [name for name in EXTRA if f"--- committed/{name}" not in shown] == []


def removed(clone: Request) -> None:
    (clone.stacks / "Pulumi.own.yaml").unlink()
    shutil.rmtree(clone.stacks / folder.RENDERED / "own")


def renamed(clone: Request) -> None:
    removed(clone)
    clone.write("stacks/Pulumi.big.yaml", OWN)
    clone.render("big")


def commented(clone: Request) -> None:
    clone.write("stacks/Pulumi.dev.yaml", f"# A comment.\n{DEV}")


CHANGES: dict[str, tuple[Callable[[Request], None], list[str]]] = {
    "a stack goes": (removed, ["own"]),
    "a stack is renamed": (renamed, ["big", "own"]),
    "a comment": (commented, ["dev"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_stack_that_changes_is_shown(clone: Request, change: str) -> None:
    does, stacks = CHANGES[change]
    does(clone)
    shown, passed = clone.page()
    assert (passed, headings(shown)) == (True, [f"Stack `{each}`" for each in stacks])
    assert ("`make down STACK=own`" in shown) is ("own" in stacks)


def test_a_stack_that_goes_takes_its_rendering_along(clone: Request) -> None:
    (clone.stacks / "Pulumi.own.yaml").unlink()
    shown, passed = clone.page()
    assert not passed
    assert "`git rm -r stacks/rendered/own`" in shown


BASE = "config:\n  trainstack:job:\n    name: mnist\n    training: {epochs: 2}\n"
EXTENDING = "config:\n  trainstack:extends: base\n  trainstack:job:\n    rerun: 1\n"


@pytest.fixture
def extending(clone: Request) -> Request:
    """Stack dev extends a base, in the revision to compare with, too."""
    clone.write("stacks/base.yaml", BASE)
    clone.write("stacks/Pulumi.dev.yaml", EXTENDING)
    clone.render("dev")
    shutil.rmtree(clone.base)
    shutil.copytree(clone.stacks, clone.base)
    return clone


def test_a_base_is_no_stranger_while_a_stack_extends_it(extending: Request) -> None:
    assert extending.page()[1]
    assert request.UNCHANGED in extending.page()[0]
    extending.write("stacks/Pulumi.dev.yaml", BASE.replace("epochs: 2", "epochs: 2}\n    rerun: 1 # {"))
    shown, passed = extending.page()
    assert not passed
    assert "- `base.yaml`" in shown
    assert request.strangers(extending.stacks, {"dev", "own"}) == ["base.yaml"]


@pytest.mark.parametrize("text", [CONFLICT, EXTENDING.replace("base", "bsae")])
def test_the_base_of_a_refused_stack_is_not_to_be_removed(extending: Request, text: str) -> None:
    extending.write("stacks/Pulumi.dev.yaml", text)
    assert request.strangers(extending.stacks, {"dev", "own"}) == []
    assert extending.page()[1] is False


def test_a_base_that_changes_is_shown_in_each_stack_that_extends_it(extending: Request) -> None:
    extending.write("stacks/base.yaml", BASE.replace("epochs: 2", "epochs: 3"))
    extending.write("stacks/Pulumi.more.yaml", EXTENDING)
    for stack in ("dev", "more"):
        extending.render(stack)
    shown, passed = extending.page()
    assert (passed, headings(shown)) == (True, ["Stack `dev`", "Stack `more`"])
    assert "| `job.training.epochs` | `2` | `3` |" in shown
    assert "| `trainstack:job.training.epochs` | `3` | `stacks/base.yaml:4` |" in shown
    assert "| `trainstack:job.training.epochs` | `2` | `stacks/base.yaml:4` |" in shown, "as it was"
    assert shown.count("| `trainstack:job.rerun` | `1` | `stacks/Pulumi.dev.yaml:4` |") == 2
    assert shown.count("<summary>Each value of stacks/Pulumi.dev.yaml") == 2
    assert str(extending.base) not in shown


@pytest.mark.parametrize("change", ["a comment", "a value moves"])
def test_a_base_whose_change_renders_alike_is_shown(extending: Request, change: str) -> None:
    if change == "a comment":
        extending.write("stacks/base.yaml", f"# A comment.\n{BASE}")
    else:
        extending.write("stacks/base.yaml", f"{BASE}    rerun: 1\n")
        extending.write("stacks/Pulumi.dev.yaml", EXTENDING.replace("  trainstack:job:\n    rerun: 1\n", ""))
    shown, passed = extending.page()
    assert (passed, headings(shown)) == (True, ["Stack `dev`"])
    assert "Nothing that the stack applies has changed." in shown
    place = "base.yaml:5" if change == "a value moves" else "Pulumi.dev.yaml:4"
    assert f"| `trainstack:job.rerun` | `1` | `stacks/{place}` |" in shown


def test_an_encrypted_value_is_not_shown(extending: Request) -> None:
    secret = "    env:\n      TOKEN:\n        secure: v1:abc:def\n"
    extending.write("stacks/Pulumi.dev.yaml", f"{EXTENDING}{secret}")
    extending.render("dev")
    shown, _ = extending.page()
    assert "| `trainstack:job.env.TOKEN` | `(secret)` | `stacks/Pulumi.dev.yaml:6` |" in shown
    assert "v1:abc:def" not in shown


@pytest.mark.parametrize("content", [CONFLICT, "7", "\xff", None])
def test_a_base_file_of_the_revision_that_cannot_be_read_is_refused(
    extending: Request, content: str | None
) -> None:
    file = extending.base / "base.yaml"
    file.unlink() if content is None else file.write_bytes(content.encode("latin-1"))
    shown, passed = extending.page()
    assert (passed, headings(shown)) == (True, ["Stack `dev`"])
    assert "This commit's program refuses the revision that this page compares with:" in shown
    assert "stacks/base.yaml" in shown
    assert str(extending.base) not in shown


@pytest.mark.parametrize("content", [CONFLICT, "7", "\xff"])
@pytest.mark.parametrize("where", ["the stack file", "an object"])
def test_a_base_that_cannot_be_read_is_a_refused_base(clone: Request, where: str, content: str) -> None:
    """A merge with its marks came onto main; this request repairs it."""
    objects = clone.base / "rendered" / "dev" / "jobs" / "jobs.yaml"
    file = clone.base / "Pulumi.dev.yaml" if where == "the stack file" else objects
    file.write_bytes(content.encode("latin-1"))
    shown, passed = clone.page()
    assert (passed, headings(shown)) == (True, ["Stack `dev`"])
    assert "This commit's program refuses the revision that this page compares with:" in shown
    assert file.name in shown
    assert str(clone.base) not in shown


@pytest.mark.parametrize("content", [CONFLICT, "\xff"])
def test_a_stack_that_cannot_be_read_is_refused(clone: Request, content: str) -> None:
    (clone.stacks / "Pulumi.dev.yaml").write_bytes(content.encode("latin-1"))
    shown, passed = clone.page()
    assert (passed, headings(shown)) == (False, ["Stack `dev`"])
    assert "The stack is refused." in shown


def test_another_place_of_configuration_is_refused(clone: Request) -> None:
    clone.write("Pulumi.yaml", "name: trainstack\nruntime: python\nstackConfigDir: elsewhere\n")
    file = clone.root / "page.md"
    base = page.Base(clone.base, "main")
    with pytest.raises(ConfigError, match="stackConfigDir"):
        request.write(file, base, COMMIT, clone.stacks)
    assert "stackConfigDir" in file.read_text()
    clone.write("Pulumi.yaml", "name: trainstack\nruntime: python\nstackConfigDir: stacks\n")
    assert request.write(file, base, COMMIT, clone.stacks) == 0
    assert file.read_text().endswith(f"{request.UNCHANGED}\n")
