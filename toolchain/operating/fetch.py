"""`make fetch`: gets and builds what `make up` of a stack takes from elsewhere, so that it needs no network then."""

from __future__ import annotations

from toolchain import stack_files
from toolchain.images import cluster_images
from toolchain.machine import disks, engine
from toolchain.machine.engine import Engine
from toolchain.operating import environment, program_calls, setup
from toolchain.paths import LOGS
from toolchain.steps import run, step


def fetch(stack: str) -> None:
    """Set up what `stack` needs of tools, packages and images; makes no cluster. Raises SetupError."""
    stack_files.check(stack)
    with setup.project_lock(), disks.watched():
        try:
            found = setup.prepare(stack, builds_image=True) | setup.prepare_operators(stack)
            variables = environment.for_stack(found, stack)
            _pull_node_image(engine.ensure(), found, stack)
            with step("registry"):
                program_calls.fetch(variables, stack)
            with step("trainer image"):
                program_calls.build_image(variables, stack)
        finally:
            engine.stop()  # ours, where nobody else uses it
    print(
        f"make up STACK={stack} takes nothing from elsewhere now, but what its cluster's nodes pull themselves"
    )


def _pull_node_image(running: Engine, found: dict[str, str], stack: str) -> None:
    """kind would pull it when it makes the cluster."""
    image = found.get("TRAINSTACK_NODE_IMAGE")
    if image != cluster_images.PUBLISHED_NODE or not setup.makes_nodes(stack):
        return
    if not cluster_images.succeeds(running, "image", "inspect", image):
        with step("kind's node image"):
            run([running.docker, "pull", "--quiet", image], log=LOGS / "images.log", env=running.env)
