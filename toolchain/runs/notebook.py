"""`make notebook`: docs/notebook.ipynb, run in a container on a finished run and the data that it has seen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from toolchain import stack_files
from toolchain.images import on_debian
from toolchain.machine import engine
from toolchain.paths import DATA, LOCAL, LOGS, ROOT
from toolchain.runs import records
from toolchain.runs.records import Run
from toolchain.steps import SetupError, run, step

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
LOCK = ROOT / "requirements-notebook.lock"
DOCKERFILE = Path(on_debian.__file__).with_name("notebook.Dockerfile")
CLONE = "/clone"
"""Folder in the container with the files of this clone that the notebook reads."""
EXECUTE = f"""
import sys
import nbclient
import nbformat
notebook = nbformat.read("{CLONE}/" + sys.argv[1], as_version=4)
nbformat.write(nbclient.execute(notebook, cwd="{CLONE}"), sys.stdout)
"""
RESULTS = LOCAL / "notebooks"
NETWORK = "lenet"
"""The one that the notebook writes out."""
DIGITS = "digits"
IMAGES = "train-images-idx3-ubyte"
LABEL = "label=trainstack.target"


def notebook(stack: str, name: str) -> None:
    """Run it for the run called `name`, the latest of `stack` where that is empty, and print where the result is.

    Raises SetupError.
    """
    chosen = choose(stack, name)
    try:
        result = _execute(chosen, _data(chosen))
    finally:
        engine.stop()  # ours, where nobody else uses it
    print(f"notebook: {result}")


def _execute(chosen: Run, data: Path) -> Path:
    """Run it in a container that has no network and may read models and data; returns the file of the result."""
    running = engine.ensure()
    image = on_debian.ensure(running, "notebook", DOCKERFILE, LOCK)
    folders = {
        ROOT / "Pulumi.yaml": "Pulumi.yaml",
        NOTEBOOK: NOTEBOOK.name,
        records.models_folder(): "models",
    }
    options = [f"--volume={folder}:{CLONE}/{name}:ro" for folder, name in folders.items()]
    options += [f"--volume={data}:{CLONE}/data:ro", f"--env=STACK={chosen.stack}", f"--env=RUN={chosen.name}"]
    options += ["--network=none", "--read-only", "--tmpfs=/tmp", f"--user={os.getuid()}:{os.getgid()}"]
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = RESULTS / f"{chosen.name}.ipynb"
    part = result.with_suffix(".part")
    command = [running.docker, "run", "--rm", "--init", *options, image, "python3", "-c", EXECUTE]
    try:
        with step(f"notebook on {chosen.stack}/{chosen.name}"):
            run([*command, NOTEBOOK.name], log=LOGS / "notebook.log", env=running.env, stdout=part)
        part.replace(result)
    finally:
        part.unlink(missing_ok=True)
    return result


def choose(stack: str, name: str) -> Run:
    """The run to look at. Raises SetupError where there is none, or the notebook cannot look into it."""
    finished = [
        each for each in records.all_runs() if each.stack == stack and each.model and not each.is_trial
    ]
    if not name and not finished:
        stack_files.check(stack)
        raise SetupError(f"no run of stack {stack} is finished here", f"make up STACK={stack}")
    chosen = records.find(name) if name else finished[-1]
    if chosen.model is None:
        raise SetupError(
            f"run {chosen.name} is not finished", "take one that `make runs` shows with all its epochs"
        )
    network = chosen.config.get("network")
    if network != NETWORK:
        raise SetupError(
            f"run {chosen.name} has trained {network}, and the notebook writes out {NETWORK}",
            f"make notebook RUN=<run>, one of {NETWORK} as `make runs` lists them",
        )
    return chosen


def _data(chosen: Run) -> Path:
    """The folder with the images that the run was trained on. Raises SetupError."""
    dataset = str(chosen.config.get("dataset"))
    if dataset == DIGITS:
        return _digits()
    for folder in (DATA / dataset, DATA):
        if any(folder.glob(f"{IMAGES}*")):
            return folder
    raise SetupError(
        f"run {chosen.name} was trained on {dataset}, which is not in {DATA}",
        "make up DATA_DIR=/folder/with/the/idx/files",
    )


def _digits() -> Path:
    """The digits, copied out of a trainer image."""
    folder = RESULTS / DIGITS
    if not any(folder.glob(f"{IMAGES}*")):
        answering = engine.ensure()
        images = answering.output("images", "--quiet", "--filter", LABEL).split()
        if not images:
            raise SetupError(
                "the digits are in the trainer image, and there is none on this machine", "make up"
            )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        container = answering.output("create", images[0])
        try:
            answering.output("cp", f"{container}:/datasets/{DIGITS}/.", str(folder))
        finally:
            answering.output("rm", container)
    return folder
