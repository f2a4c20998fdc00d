"""Section `job.resources`: what one replica may use, and what it needs to be scheduled."""

from __future__ import annotations

from pydantic import model_validator

from infra.config.api_paths import in_container
from infra.config.names import Quantity, quantity
from infra.config.section import Natural, Outcome, Section, every_key, refusal, setting

GPU = "nvidia.com/gpu"


class Requests(Section):
    """What the scheduler sets aside for one replica."""

    model_config = every_key(changing=Outcome.JOB_REPLACED)

    cpu: Quantity = setting(
        about="CPU that the scheduler sets aside for a replica.",
        default="250m",
        allowed="a quantity of CPUs, at most the limit",
        examples=["250m"],
        paths=in_container("resources.requests.cpu"),
    )
    memory: Quantity = setting(
        about="Memory that the scheduler sets aside for a replica.",
        default="512Mi",
        allowed="a quantity of bytes, at most the limit",
        examples=["512Mi"],
        paths=in_container("resources.requests.memory"),
    )


class ResourcesConfig(Section):
    """Limits of one replica; `requests` is what the scheduler sets aside for it."""

    model_config = every_key(changing=Outcome.JOB_REPLACED)

    cpu: Quantity = setting(
        about="CPU that a replica may use; the trainer starts as many threads.",
        default="1",
        allowed="a quantity of CPUs",
        examples=[1],
        paths=in_container("resources.limits.cpu"),
    )
    memory: Quantity = setting(
        about="Memory that a replica may use.",
        default="2Gi",
        allowed="a quantity of bytes",
        examples=["2Gi"],
        paths=in_container("resources.limits.memory"),
    )
    gpu: Natural = setting(
        about="GPUs of a replica.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[1],
        paths=in_container("resources.limits"),
    )
    requests: Requests = setting(
        about="What the scheduler sets aside for a replica.",
        default=Requests(),
        allowed="a mapping with cpu and memory",
    )

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
        """Resource name -> quantity, as in a container's `limits`."""
        gpu = {GPU: str(self.gpu)} if self.gpu else {}
        return {"cpu": self.cpu, "memory": self.memory, **gpu}
