"""The revision that a review compares with: where the present commit left the main branch."""

from __future__ import annotations

from pathlib import Path

from toolchain import git
from toolchain.paths import LOGS, ROOT
from toolchain.steps import SetupError, pipe

# The first that exists is taken. A clone knows what its origin calls the main branch.
MAIN = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
FOLDER = "stacks"
UPSTREAM = "infra/upstream"


def unpack(asked: str, target: Path) -> str:
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
    if git.answer(ROOT, "cat-file", "-e", f"{base}:{FOLDER}") is not None:
        folders = [
            each
            for each in (FOLDER, UPSTREAM)
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


def _commit(name: str) -> str | None:
    return git.answer(ROOT, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
