"""`make review`: renders a stack, on a machine where nothing but Python and Go is set up, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from toolchain.images import cluster_images
from toolchain.operating import backend, environment, setup
from toolchain.paths import ROOT, VENV
from toolchain.tools import build, go_modules, venv


def review(stack: str, *options: str) -> int:
    """Render what `stack` would apply below stacks/; needs no cluster. Returns the exit status.

    Parameters:
        options: of `python -m infra.review`, for example --check.
    """
    backend.check_stack(stack)
    with setup.project_lock():
        return render(stack, *options)


def render(stack: str, *options: str) -> int:
    """As `review`, for one who holds the project's lock."""
    venv.ensure()
    variables = {"PATH": environment.path(), **(environment.load() or {})}
    if environment.installs_operator(stack):
        variables = with_operator(variables)
    command = [str(VENV / "bin" / "python"), "-m", "infra.review", stack, *options]
    return subprocess.run(command, cwd=ROOT, env=environment.for_child(variables)).returncode


def with_operator(variables: dict[str, str]) -> dict[str, str]:
    """`variables`, and what reading the operator's manifests takes beyond them: one Go module, and any kubectl.

    Without Go, and without an earlier `make up`, the program asks for them where upstream publishes them.
    """
    known = Path(variables.get(cluster_images.OPERATOR_OVERLAY, os.devnull))
    if not known.is_dir() and shutil.which("go"):
        variables = {**variables, cluster_images.OPERATOR_OVERLAY: str(cluster_images.operator_overlay())}
    if not shutil.which("kubectl", path=variables["PATH"]):
        kubectl = build.build(go_modules.load("kubernetes"), "kubectl")
        variables = {**variables, "PATH": os.pathsep.join([str(kubectl), variables["PATH"]])}
    return variables
