"""A resource whose creation ends once so many others are being created."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from pulumi.dynamic import CreateResult

from infra.dynamic import Props, Provider

WAIT_S = 10


class MeetingProvider(Provider):
    """Properties: `folder`, where each creation leaves a file, and `calls`, how many have to be under way."""

    def create(self, props: Props) -> CreateResult:
        """Raises TimeoutError when the others do not come."""
        folder = Path(props["folder"])
        (folder / uuid.uuid4().hex).touch()
        deadline = time.monotonic() + WAIT_S
        while len([*folder.iterdir()]) < props["calls"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len([*folder.iterdir()])} calls of {props['calls']:.0f} were under way")
            time.sleep(0.05)
        return CreateResult("met", {})
