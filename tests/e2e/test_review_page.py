"""The commands of docs/review.md and of the two pages beside it, on a stack of kind: dev's in the place of gpu's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from infra.review.text import objects_in
from infra.upstream import vendored
from tests.e2e import clones
from tests.e2e.project import Project
from tests.faults.table.cluster import node
from tests.matrix.merged_folder import block
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, and four trainings in it")
SHOWN = {"STACK=gpu": "STACK=dev", "ci/drift gpu": "ci/drift dev", "--stack gpu": "--stack dev"}
PROMOTED = {"MIN_ACCURACY=0.99": "MIN_ACCURACY=0.5"}
HERE = (
    "make review STACK=dev",
    "make promote",
    'eval "$(make -s env STACK=gpu)"',
    "make drift",
    "mkdir -p .github/workflows",
    "ci/review main",
    "kubectl apply --server-side -f infra/upstream/training-operator",
)
ELSEWHERE = {
    "export KUBECTL_APPLYSET": "test_gitops.py, here and in tests/matrix",
    "kubectl delete": "the same",
    "kubectl -n flux-system delete": "tests/matrix/test_gitops.py",
    # With a folder in the place of a bucket, which cannot be had here.
    "export PULUMI_BACKEND_URL": "tests/unit/toolchain/operating/test_backend_with_pulumi.py",
}
OPERATOR_FILE = "stacks/rendered/dev/operator/operator.yaml"


@pytest.fixture(scope="module")
def project(engine: Engine) -> Iterator[Project]:
    """A clone on its branch main, whose stack dev is up as the branch has it."""
    with clones.temporary("review") as clone:
        git(clone, "checkout", "--quiet", "-B", "main")
        merge(clone, {"dataset": "digits", "epochs": 2})
        clone.up()
        yield clone


def git(project: Project, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=project.root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def merge(project: Project, training: dict[str, Any], **top: Any) -> None:
    """Commit another stack file with its renderings; `top` are keys beside the sections."""
    settings = yaml.safe_load(project.stack_file.read_text())
    settings["config"]["trainstack:job"].setdefault("training", {}).update(training)
    settings["config"] |= {f"trainstack:{key}": value for key, value in top.items()}
    project.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))
    for stack in ("dev", "gpu"):
        rendered = project.make("review", f"STACK={stack}")
        assert rendered.returncode == 0, rendered.stdout
    project.commit("Change the stack")


def said(project: Project, first: str, **shown: str) -> str:
    """What the block that begins with `first` prints."""
    return project.run("bash", "-e", "-c", block(first, {**SHOWN, **shown})).stdout


def in_ci() -> list[str]:
    """The command of a request for review, and that of the nightly look at what was merged."""
    return block("ci/review main", SHOWN).splitlines()


def test_a_review_shows_what_a_change_renders(project: Project) -> None:
    original = project.stack_file.read_text()
    project.configure({"trainstack:job": {"rerun": 1}})
    shown = said(project, "make review STACK=dev")
    changed = [line for line in shown.splitlines() if line.startswith(("+ ", "- "))]
    assert any("trainstack/run: &run" in line for line in changed), shown
    project.stack_file.write_text(original)
    git(project, "checkout", "--quiet", "--", "stacks")


def test_a_pull_request_reviews_the_stacks_that_it_changes(project: Project) -> None:
    said(project, "mkdir -p .github/workflows")
    project.commit("Take the workflow files over")
    git(project, "checkout", "--quiet", "-b", "change")
    merge(project, {"seed": 3})
    project.run("bash", "-e", "-c", in_ci()[0])
    page = (project.root / "page.md").read_text()
    assert "seed" in page
    assert "gpu" not in page, "a stack that is as it was"
    (project.root / "page.md").unlink()
    git(project, "checkout", "--quiet", "main")


def test_a_stack_that_is_as_applied_has_no_drift(project: Project) -> None:
    assert f"stack {project.stack}: no drift" in said(project, "make drift")
    project.run("bash", "-e", "-c", in_ci()[1])
    shown = said(project, 'eval "$(make -s env STACK=gpu)"')
    assert "unchanged" in shown


def test_what_was_trained_is_promoted(project: Project) -> None:
    said(project, "make promote", **PROMOTED)
    assert git(project, "show", "--no-patch", "--format=%s") == "Promote dev to gpu"
    assert "epochs: 2" in git(project, "show", "HEAD:stacks/Pulumi.gpu.yaml")


def test_a_protected_stack_goes_forward_only(project: Project) -> None:
    merge(project, {}, protected=True)
    before = project.up()
    older = git(project, "rev-parse", "HEAD")
    merge(project, {"epochs": 3})
    applied = project.up()
    git(project, "checkout", "--quiet", older)
    refused = project.make("up")
    assert refused.returncode != 0
    assert "which is not part of" in refused.stdout, refused.stdout
    assert project.outputs()["accuracy"] == float(applied["accuracy"]), "nothing was applied"
    git(project, "checkout", "--quiet", "main")
    git(project, "revert", "--no-edit", "HEAD")
    assert project.up()["accuracy"] == before["accuracy"], "going back is a commit, too"


def test_an_operator_is_installed_from_its_rendering(project: Project) -> None:
    """With the image that the cluster has under the published name: where it is published cannot be reached."""
    rendered = objects_in((project.root / OPERATOR_FILE).read_text())
    (published,) = [each for each in rendered if each["kind"] == "Deployment"]
    wanted = published["spec"]["template"]["spec"]["containers"][0]["image"]
    running = project.get("deployment", "training-operator")["spec"]["template"]["spec"]["containers"][0][
        "image"
    ]
    project.run(
        "docker", "exec", node(project), "ctr", "-n", "k8s.io", "images", "tag", "--force", running, wanted
    )
    crds = str(vendored.folder("training-operator") / vendored.DEFINITIONS)
    project.run("kubectl", "delete", "-f", crds, "-f", "stacks/rendered/dev/operator")
    said(project, "kubectl apply --server-side -f infra/upstream/training-operator")
    assert project.get("deployment", "training-operator")["status"]["readyReplicas"] == 1
