"""`make review`: renders a stack, on a machine where nothing but Python is set up, too."""

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
# The first that exists is taken. A clone knows what its origin calls the main branch.
MAIN = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
STACKS = "stacks"
UPSTREAM = "infra/upstream"


def review(stack: str, base: str = "") -> int:
    """Render what `stack` would apply below stacks/, and write a page about it; needs no cluster.

    Returns the exit status: 0 where nothing is wrong with it. Raises SetupError for a `base` that does not exist.

    Parameters:
        base: the revision to compare with; empty for the one where this commit leaves the main branch.
    """
    stack_files.check(stack)
    with setup.project_lock(), tempfile.TemporaryDirectory(prefix="trainstack-base-") as place:
        revision = unpack_base(base, Path(place))
        page = ["--page", str(PAGES / f"{stack}.md")]
        compared = ["--base", str(Path(place) / STACKS), "--revision", revision]
        return render(stack, *page, *compared, add=with_schemas)


def request(base: str, page: Path) -> int:
    """Write one page about every stack that differs from `base`, or with which something is wrong; the exit status.

    Nothing below stacks/ is written. Raises SetupError for a `base` that does not exist.
    """
    # GitHub checks out a merge that nobody has made, and names the commit that the site shows.
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
    """As `review`, for one who holds the project's lock.

    Parameters:
        options: of `python -m infra.review`, for example --check.
        add: called with the program's variables; returns them with what else it needs.
    """
    venv.ensure()
    with venv.program(environment.for_child(add(environment.tools()))):
        from infra.review import __main__ as command

        return command.main([stack, *options])


def with_schemas(variables: dict[str, str]) -> dict[str, str]:
    """`variables`, and what holding a rendering against the API server's schemas takes: kubeconform and one file.

    Without Go, and without an earlier build, the page says that they were not checked.
    """
    try:
        kubeconform = build.build("kubeconform", "kubeconform")
        source = build.source("kubernetes", "k8s.io/kubernetes", "api/openapi-spec")
    except SetupError as error:
        say(f"the API's schemas are not checked: {error.what}")
        return variables
    path = os.pathsep.join([variables["PATH"], str(kubeconform)])
    return {**variables, "PATH": path, agreed.OPENAPI: str(source / "swagger.json")}


def unpack_base(asked: str, target: Path) -> str:
    """Put `stacks/` of the revision to compare with, and its upstream's manifests, into `target`.

    Returns how to call that revision.

    Nothing is put there where the clone has no commit, or that revision no stacks. Raises SetupError for a revision
    that does not exist, or that has no history in common with the present one.

    Parameters:
        asked: a revision as Git takes it; empty for the main branch.
    """
    if git.answer(ROOT, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        return "nothing: no commit of a Git repository is here"
    name = asked or next((each for each in MAIN if _commit(each)), "HEAD")
    if _commit(name) is None:
        raise SetupError(
            f"there is no revision {name}", "fetch it, or give another one: make review BASE=<revision>"
        )
    base = git.answer(ROOT, "merge-base", name, "HEAD")
    if base is None:
        raise SetupError(
            f"{name} and the present commit have no history in common, as far as this clone knows it",
            "fetch all of it: git fetch --unshallow",
        )
    short = name.removeprefix("refs/remotes/").removesuffix("/HEAD")
    if git.answer(ROOT, "cat-file", "-e", f"{base}:{STACKS}") is not None:
        folders = [
            each
            for each in (STACKS, UPSTREAM)
            if git.answer(ROOT, "cat-file", "-e", f"{base}:{each}") is not None
        ]
        source = ["git", "-C", str(ROOT), "archive", "--format=tar", base, *folders]
        pipe(source, ["tar", "--extract", "--directory", str(target)], log=LOGS / "review.log")
    head = str(_commit("HEAD"))
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
