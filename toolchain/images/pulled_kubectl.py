"""The kubectl of the published node image, for a machine that can pull that and has none of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from toolchain.images.cluster_images import PUBLISHED_NODE, published
from toolchain.machine.engine import Engine
from toolchain.machine.processes import is_linux
from toolchain.paths import cache
from toolchain.steps import step


def can_be_had(engine: Engine) -> bool:
    """Whether the image is used here, and its programs run here."""
    return is_linux() and published(engine)


def ensure(engine: Engine) -> Path:
    """The program's path, after copying it out of the image, which is pulled where the engine lacks it."""
    target = cache() / "tools" / f"kubectl-{PUBLISHED_NODE[-12:]}" / "bin" / "kubectl"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with step("kubectl of the published node image"), tempfile.TemporaryDirectory(dir=target.parent) as part:
        container = engine.output("create", PUBLISHED_NODE)
        try:
            engine.output("cp", f"{container}:/usr/bin/kubectl", part)
        finally:
            engine.output("rm", "--force", "--volumes", container)
        os.replace(f"{part}/kubectl", target)
    return target
