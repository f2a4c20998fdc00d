"""Section `job.replicas`: how many pods."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.config.api_paths import Counterpart
from infra.config.section import Count, Outcome, Section, Whole, every_key, setting


class Replicas(Section):
    """Pods of each type."""

    model_config = every_key(
        changing=Outcome.JOB_REPLACED,
        paths=Counterpart(
            "pytorchReplicaSpecs.*.replicas",
            "trainer.numNodes, TrainingRuntime: mlPolicy.numNodes",
            "Master and Worker are one kind of replica; rank 0 is the pod with index 0.",
        ),
    )

    master: Annotated[Whole, Field(ge=1, le=1)] | None = setting(
        about="Pods of type Master; rank 0 is in it.",
        default=1,
        allowed="1, or null for an elastic job",
        examples=[1],
    )
    worker: Count | None = setting(
        about="Pods of type Worker.",
        default=1,
        allowed="a whole number of at least 1, or null for none",
        examples=[1],
    )

    @property
    def total(self) -> int:
        """Pods of all types."""
        return (self.master or 0) + (self.worker or 0)
