"""Sections `cluster.quota` and `cluster.limitRange`: limits of the jobs' namespace, and of each container in it."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import model_validator

from infra.config.names import Quantity
from infra.config.resources import GPU
from infra.config.section import Count, Outcome, Section, Whole, every_key, refusal, setting


class Quota(Section):
    """The maximum for all unfinished pods of the namespace together."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    cpu: Quantity | None = setting(
        about="Maximum sum of the CPU limits of all pods.",
        default=None,
        allowed="a quantity of CPUs",
        examples=[8],
    )
    memory: Quantity | None = setting(
        about="Maximum sum of the memory limits of all pods.",
        default=None,
        allowed="a quantity of bytes",
        examples=["32Gi"],
    )
    gpu: Count | None = setting(
        about=(
            "Maximum number of GPUs of all pods together. Each GPU resource that jobs use has this maximum "
            "(`nvidia.com/gpu`, `amd.com/gpu`)."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[4],
    )
    pods: Count | None = setting(
        about=(
            "Maximum number of pods of all kinds. After a job's end, the stack may start one more pod, which reads the "
            "run's model and files from the volume: it counts, too."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[20],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> Quota:
        if not self.hard():
            raise refusal(
                "at least one of cpu, memory, gpu and pods", "write `pods: 20`, or remove quota", "pods", None
            )
        return self

    def hard(self, gpu_resources: Collection[str] = (GPU,)) -> dict[str, str]:
        """The field `hard` of a ResourceQuota. `gpu_resources`: the names of the jobs' GPU resources."""
        found = {
            "limits.cpu": self.cpu,
            "limits.memory": self.memory,
            **{f"requests.{name}": self.gpu for name in sorted(gpu_resources)},
            "pods": self.pods,
        }
        return {name: str(value) for name, value in found.items() if value is not None}


class LimitRange(Section):
    """Default CPU and memory of a container in the namespace, and the highest ratio of memory limit to request."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    cpu: Quantity | None = setting(
        about="Default CPU limit and request of a container.",
        default=None,
        allowed="a quantity of CPUs",
        examples=[1],
    )
    memory: Quantity | None = setting(
        about="Default memory limit and request of a container.",
        default=None,
        allowed="a quantity of bytes",
        examples=["2Gi"],
    )
    memory_ratio: Whole | None = setting(
        about="Maximum ratio of a container's memory limit to its memory request.",
        default=None,
        ge=2,
        allowed="a whole number of at least 2",
        examples=[2],
    )

    @model_validator(mode="after")
    def _says_something(self) -> LimitRange:
        if not self.item():
            fix = "write `memoryRatio: 2`, or remove limitRange"
            raise refusal("at least one of cpu, memory and memoryRatio", fix, "memoryRatio", None)
        return self

    def item(self) -> dict[str, dict[str, str]]:
        """The entry of a LimitRange for containers, without its type."""
        defaults = {"cpu": self.cpu, "memory": self.memory}
        given = {name: value for name, value in defaults.items() if value is not None}
        ratio = {"maxLimitRequestRatio": {"memory": str(self.memory_ratio)}} if self.memory_ratio else {}
        return {**({"default": given, "defaultRequest": given} if given else {}), **ratio}
