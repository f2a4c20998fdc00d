"""`make audit`: what is trusted of others, with its gaps, as a list and as a bill of materials; `make lock-images`."""

from __future__ import annotations

import subprocess

from toolchain.images.cluster_images import PUBLISHED_NODE
from toolchain.operating import environment, setup
from toolchain.paths import LOCAL, ROOT
from toolchain.tools import venv

BILL = LOCAL / "audit" / "sbom.cdx.json"


def audit() -> int:
    """List what this clone and this machine trust; changes nothing but the bill. Returns the exit status."""
    return _run("infra.audit", str(BILL.relative_to(ROOT)), PUBLISHED_NODE)


def lock_images() -> int:
    """Give the bases that a tag alone names the digests of their registries. Returns the exit status."""
    return _run("infra.audit.lock_images")


def _run(module: str, *arguments: str) -> int:
    with setup.project_lock():
        venv.ensure()
    command = venv.program(module, *arguments)
    return subprocess.run(command, cwd=ROOT, env=environment.for_child(environment.tools())).returncode
