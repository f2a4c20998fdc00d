"""Sections `job.replicas` and `job.tolerations`: how many pods, and on which nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from infra.config.names import LabelKey, LabelValue
from infra.config.section import Count, Section, Whole, refusal, setting


class Replicas(Section):
    """Pods of each type."""

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


class Toleration(Section):
    """As in a pod's `tolerations`."""

    key: LabelKey | None = setting(
        about="Key of the taints that are tolerated; without it every key.",
        default=None,
        allowed="a taint's key",
        examples=["nvidia.com/gpu"],
    )
    operator: str = setting(
        about="How the key is compared: that it exists, or that it has the value.",
        default="Exists",
        pattern="^(Exists|Equal)$",
        allowed="Exists or Equal",
    )
    value: LabelValue | None = setting(
        about="Value of the taint, with operator Equal.",
        default=None,
        allowed="a taint's value",
        examples=["present"],
    )
    effect: str | None = setting(
        about="Effect of the taints that are tolerated; without it every effect.",
        default=None,
        pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$",
        allowed="NoSchedule, PreferNoSchedule or NoExecute",
        examples=["NoSchedule"],
    )

    @model_validator(mode="after")
    def _can_be_a_pods(self) -> Toleration:
        """The API server refuses the pods of a job that is wrong here, not the job."""
        if self.value and self.operator == "Exists":
            raise refusal("a value with operator Equal alone", "add `operator: Equal`", "value", self.value)
        if self.operator == "Equal" and not self.key:
            raise refusal("Exists where there is no key", "add the taint's key", "operator", self.operator)
        return self
