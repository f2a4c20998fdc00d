"""`python -m infra.prefetch STACK`: downloads what the program needs later, while there is a network."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from infra import agreed, docker, paths
from infra.clusters.kind.component import REGISTRY_IMAGE
from infra.command_line import errors_as_text
from infra.config import ConfigError, Stack
from infra.config.load import from_file
from infra.process import CommandError, output


def fetch(stack: Stack, environment: Mapping[str, str], show: Callable[[str], None]) -> None:
    """Have the engine hold the image of a kind cluster's registry.

    What set-up has built is there already, and `environment` names it. Raises CommandError.

    Parameters:
        show: gets a line about it.
    """
    if stack.cluster.kind.has_our_nodes:
        image = environment.get(agreed.REGISTRY_IMAGE) or REGISTRY_IMAGE
        if not docker.has_image(image):
            output("docker", "pull", "--quiet", image)
        show(f"registry's image: {image}")


@errors_as_text(ConfigError, CommandError)
def main(name: str) -> int:
    """For the stack `name`; the exit status."""
    stack = from_file(paths.stack_file(name))
    fetch(stack, os.environ, print)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
