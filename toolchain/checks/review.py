"""`make review`: renders a stack, on a machine where nothing but Python and Go is set up, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from toolchain import stack_files
from toolchain.checks import base_revision
from toolchain.images import cluster_images, pulled_kubectl
from toolchain.machine import engine
from toolchain.operating import environment, setup
from toolchain.paths import LOCAL, ROOT
from toolchain.steps import SetupError, say
from toolchain.tools import build, go_modules, venv

# Tells the program where the OpenAPI document of the pinned API server is.
OPENAPI = "TRAINSTACK_OPENAPI"
PAGES = LOCAL / "review"


def review(stack: str, base: str = "") -> int:
    """Render what `stack` would apply below stacks/, and write a page about it; needs no cluster.

    Returns the exit status: 0 where nothing is wrong with it. Raises SetupError for a `base` that does not exist.

    Parameters:
        base: the revision to compare with; empty for the one where this commit leaves the main branch.
    """
    stack_files.check(stack)
    with setup.project_lock(), tempfile.TemporaryDirectory(prefix="trainstack-base-") as place:
        revision = base_revision.unpack(base, Path(place))
        page = ["--page", str(PAGES / f"{stack}.md")]
        compared = ["--base", str(Path(place) / base_revision.FOLDER), "--revision", revision]
        return render(stack, *page, *compared, add=with_schemas)


def render(
    stack: str, *options: str, add: Callable[[dict[str, str]], dict[str, str]] = lambda found: found
) -> int:
    """As `review`, for one who holds the project's lock.

    Parameters:
        options: of `python -m infra.review`, for example --check.
        add: called with the program's variables; returns them with what else it needs.
    """
    venv.ensure()
    variables = with_operator_of(stack, add(environment.tools()))
    command = venv.program("infra.review", stack, *options)
    return subprocess.run(command, cwd=ROOT, env=environment.for_child(variables)).returncode


def with_operator_of(stack: str, variables: dict[str, str]) -> dict[str, str]:
    """`variables`, and what reading the manifests of the operator that `stack` brings takes beyond them, if any."""
    if not environment.installs_operator(stack):
        return variables
    variables = {**environment.operators(variables, stack), **variables}
    return with_operator(_with_gangs(stack, variables), environment.wants_trainer(stack))


def _with_gangs(stack: str, variables: dict[str, str]) -> dict[str, str]:
    there = Path(variables.get(cluster_images.SCHEDULER_MANIFESTS, os.devnull)).is_dir()
    if there or not environment.wants_gangs(stack) or not shutil.which("go"):
        return variables
    return {**variables, **cluster_images.scheduler_manifests()}


def with_operator(variables: dict[str, str], wants_trainer: bool) -> dict[str, str]:
    """`variables`, and what reading the operator's manifests takes beyond them: Go modules, and any kubectl.

    Without Go, and without an earlier `make up`, the program asks for them where upstream publishes them.

    Parameters:
        wants_trainer: whether the operator is Kubeflow Trainer.
    """
    name = cluster_images.TRAINER_MANIFESTS if wants_trainer else cluster_images.OPERATOR_OVERLAY
    if not Path(variables.get(name, os.devnull)).is_dir() and shutil.which("go"):
        found = (
            cluster_images.trainer_manifests()
            if wants_trainer
            else {cluster_images.OPERATOR_OVERLAY: str(cluster_images.operator_overlay())}
        )
        variables = {**variables, **found}
    if not shutil.which("kubectl", path=variables["PATH"]):
        variables = {**variables, "PATH": os.pathsep.join([str(_kubectl()), variables["PATH"]])}
    return variables


def _kubectl() -> Path:
    """A folder with kubectl: a built one or, without Go, that of the published node image. Raises SetupError."""
    module = go_modules.load("kubernetes")
    answering = engine.find()
    buildable = shutil.which("go") or build.built(module, "kubectl")
    if not buildable and answering and pulled_kubectl.can_be_had(answering):
        return pulled_kubectl.ensure(answering).parent
    return build.build(module, "kubectl")


def with_schemas(variables: dict[str, str]) -> dict[str, str]:
    """`variables`, and what holding a rendering against the API server's schemas takes: kubeconform and one file.

    Without Go, and without an earlier build, the page says that they were not checked.
    """
    try:
        kubeconform = build.build(go_modules.load("kubeconform"), "kubeconform")
        source = build.source(go_modules.load("kubernetes"), "k8s.io/kubernetes", "api/openapi-spec")
    except SetupError as error:
        say(f"the API's schemas are not checked: {error.what}")
        return variables
    path = os.pathsep.join([variables["PATH"], str(kubeconform)])
    return {**variables, "PATH": path, OPENAPI: str(source / "swagger.json")}
