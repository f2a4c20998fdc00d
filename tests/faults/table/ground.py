"""The clones that the faults of a job are tried on, and what their trainings come to when nothing happens."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e import clones
from tests.e2e.project import Project
from tests.faults.table import training
from tests.faults.table.rows import Way

RUNS_MIB = 512
"""Room for all runs of the rows of one way, of 10 MiB each."""

QUEUE = "training"
SETTINGS: dict[Way, dict[str, dict[str, Any]]] = {
    Way.PYTORCHJOB: {},
    Way.TRAINJOB: {"trainstack:operator": {"api": "v2"}},
    Way.KUEUE: {
        "trainstack:operator": {"queue": "kueue"},
        "trainstack:cluster": {
            "queue": {
                "localQueues": [QUEUE],
                "flavors": [{"nominalQuota": {"cpu": "64", "memory": "256Gi", "pods": 2}}],
            }
        },
        "trainstack:job": {"queue": QUEUE},
    },
}
"""What a stack file says for jobs of each way. Kueue has room for one job of two replicas."""


@dataclass
class Ground:
    """A clone with one cluster."""

    project: Project
    _results: dict[str, tuple[float, float]] = field(default_factory=dict)

    def undisturbed(self, how: dict[str, Any]) -> tuple[float, float]:
        """Accuracy and loss that this training comes to when nothing happens; trained when first asked for."""
        key = json.dumps(how)
        if key not in self._results:
            with training.started(self.project, how) as run:
                self._results[key] = run.result()
        return self._results[key]


@contextmanager
def on_file_system(name: str, size_mib: int) -> Iterator[Project]:
    """A clone whose models lie on a file system of their own, which can be filled and made read-only."""
    with clones.temporary(name) as clone:
        clone.models.mkdir(parents=True)
        options = ["-t", "tmpfs", "-o", f"size={size_mib}m", "volume", str(clone.models)]
        subprocess.run(["mount", *options], check=True)
        try:
            yield clone
        finally:
            clone.make("down")
            subprocess.run(["umount", "--lazy", str(clone.models)], check=True)


@contextmanager
def of(way: Way) -> Iterator[Project]:
    """A clone whose jobs go this way. It is up: its controllers may have to be compiled first."""
    with on_file_system(f"faults-{way}", RUNS_MIB) as clone:
        clone.configure(SETTINGS[way])
        clone.commit(f"jobs of the way {way}")
        clone.up()
        yield clone
