"""Section `job.resources`: what one replica may use, and what it needs to be scheduled."""

from __future__ import annotations

from pydantic import Field, model_validator

from infra.config.names import Quantity, quantity
from infra.config.section import Natural, Section, refusal

GPU = "nvidia.com/gpu"


class Requests(Section):
    cpu: Quantity = Field(default="250m", description="a CPU quantity", examples=["250m"])
    memory: Quantity = Field(default="512Mi", description="a memory quantity", examples=["512Mi"])


class ResourcesConfig(Section):
    """Limits of one replica; `requests` is what the scheduler sets aside for it."""

    cpu: Quantity = Field(default="1", description="the CPU limit", examples=[1])
    memory: Quantity = Field(default="2Gi", description="the memory limit", examples=["2Gi"])
    gpu: Natural = Field(default=0, description="nvidia.com/gpu, a whole number of at least 0", examples=[1])
    requests: Requests = Field(default=Requests(), description="a mapping with cpu and memory")

    @model_validator(mode="after")
    def _requests_below_limits(self) -> ResourcesConfig:
        for name in ("cpu", "memory"):
            asked, limit = getattr(self.requests, name), getattr(self, name)
            if quantity(asked) > quantity(limit):
                raise refusal(
                    f"a request of at most the limit ({limit})",
                    f"lower requests.{name}, or raise {name}",
                    f"requests.{name}",
                    asked,
                )
        return self

    def limits(self) -> dict[str, str]:
        gpu = {GPU: str(self.gpu)} if self.gpu else {}
        return {"cpu": self.cpu, "memory": self.memory, **gpu}
