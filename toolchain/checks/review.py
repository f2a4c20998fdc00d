"""`make review`: renders a stack. A machine with only Python is enough."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from infra import agreed
from toolchain import git, stack_files
from toolchain.operating import environment, setup
from toolchain.paths import LOCAL, LOGS, ROOT
from toolchain.steps import SetupError, pipe, say
from toolchain.tools import build, venv

PAGES = LOCAL / "review"
# The first existing name is used. A clone knows the name of its origin's main branch.
MAIN = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
STACKS = "stacks"
UPSTREAM = "infra/upstream"


def review(stack: str, base: str = "") -> int:
    """Render the manifests of `stack` below stacks/, and write a page about it; needs no cluster.

    Returns the exit status: 0 if nothing is wrong. Raises SetupError for a `base` that does not exist.

    Parameters:
        base: a revision; the page compares with the last commit that this branch shares with it. Empty for the main
            branch.
    """
    stack_files.check(stack)
    with setup.project_lock(), tempfile.TemporaryDirectory(prefix="trainstack-base-") as place:
        revision = unpack_base(base, Path(place))
        page = ["--page", str(PAGES / f"{stack}.md")]
        compared = ["--base", str(Path(place) / STACKS), "--revision", revision]
        return render(stack, *page, *compared, add=with_schemas)


def request(base: str, page: Path) -> int:
    """Write one page about all stacks that differ from `base` or have a problem; returns the exit status.

    It writes nothing below stacks/. Raises SetupError for a `base` that does not exist.
    """
    # GitHub checks out its own test merge. COMMIT is the commit that GitHub's pages show.
    commit = os.environ.get("COMMIT") or git.answer(ROOT, "rev-parse", "HEAD") or "(none)"
    failed = "The review failed; the log says why."
    page.write_text(f"{agreed.REQUEST_MARK}\nThis is about commit `{commit[:12]}`.\n\n{failed}\n")
    with setup.project_lock(), tempfile.TemporaryDirectory(prefix="trainstack-base-") as place:
        revision = unpack_base(base, Path(place))
        venv.ensure()
        with venv.program(environment.for_child(with_schemas(environment.tools()))):
            from infra.review import request
            from infra.review.page import Base

            return request.write(page, Base(Path(place) / STACKS, revision), commit)


def render(
    stack: str, *options: str, add: Callable[[dict[str, str]], dict[str, str]] = lambda found: found
) -> int:
    """As `review`, for a caller that holds the project's lock.

    Parameters:
        options: options of `python -m infra.review`, for example --check.
        add: called with the program's variables; returns them with more variables.
    """
    venv.ensure()
    with venv.program(environment.for_child(add(environment.tools()))):
        from infra.review import __main__ as command

        return command.main([stack, *options])


def with_schemas(variables: dict[str, str]) -> dict[str, str]:
    """`variables`, and those with the paths for a check of schemas: kubeconform, and the API server's schema file.

    Without Go, and without an earlier build, the page says that the schemas were not checked.
    """
    try:
        kubeconform = build.build("kubeconform", "kubeconform")
        source = build.source("kubernetes", "k8s.io/kubernetes", "api/openapi-spec")
    except SetupError as error:
        say(f"the manifests are not checked against the API server's schemas: {error.what}")
        return variables
    path = os.pathsep.join([variables["PATH"], str(kubeconform)])
    return {**variables, "PATH": path, agreed.OPENAPI: str(source / "swagger.json")}


def unpack_base(asked: str, target: Path) -> str:
    """Copy into `target` what the page compares with: `stacks/` and `infra/upstream` of another revision.

    Returns the name of that revision for the page.

    It copies nothing if the clone has no commit, or if that revision has no stacks. Raises SetupError for a revision
    that does not exist, or that has no common history with the current commit.

    Parameters:
        asked: a revision that Git understands; empty for the main branch.
    """
    head = _commit("HEAD")
    if head is None:
        return "nothing: this folder has no Git commit"
    name = asked or next((each for each in MAIN if _commit(each)), "HEAD")
    if _commit(name) is None:
        raise SetupError(
            f"there is no revision {name}", "fetch it, or name another one: make review BASE=<revision>"
        )
    base = git.answer(ROOT, "merge-base", name, "HEAD")
    if base is None:
        raise SetupError(
            f"this clone knows no common history of {name} and the current commit",
            "fetch the whole history: git fetch --unshallow"
            if git.answer(ROOT, "rev-parse", "--is-shallow-repository") == "true"
            else "name a revision of the same history: make review BASE=<revision>",
        )
    short = name.removeprefix("refs/remotes/").removesuffix("/HEAD")
    folders = (git.answer(ROOT, "ls-tree", "--name-only", base, STACKS, UPSTREAM) or "").split()
    if STACKS in folders:
        source = ["git", "-C", str(ROOT), "archive", "--format=tar", base, *folders]
        pipe(source, ["tar", "--extract", "--directory", str(target)], log=LOGS / "review.log")
    return (
        f"`{base[:12]}`"
        if base == head
        else f"`{base[:12]}`, where this commit, `{head[:12]}`, leaves `{short}`"
    )


def main(base: str, page: str) -> int:
    """As `request`, for ci/review."""
    try:
        return request(base, Path(page))
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1


def _commit(name: str) -> str | None:
    return git.answer(ROOT, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
