"""Sections `job.resources` and `job.replicas`: what one replica may use and needs, and the number of replicas."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from infra.config.api_paths import Counterpart, in_container
from infra.config.names import (
    EXTENDED,
    HUGE_PAGES,
    OWN_RESOURCES,
    ExtendedResource,
    Quantity,
    is_resource,
    quantity,
)
from infra.config.section import Count, Natural, Outcome, Section, Whole, every_key, refusal, setting

GPU = "nvidia.com/gpu"


class Amounts(Section):
    """A section with further keys: Kubernetes' names of container resources, each with a quantity."""

    model_config = ConfigDict(**every_key(changing=Outcome.JOB_REPLACED), extra="allow")
    __pydantic_extra__: dict[str, Quantity] = Field(init=False)

    @model_validator(mode="before")
    @classmethod
    def _of_a_container(cls, given: Any) -> Any:
        fields = [str(field.alias) for field in cls.model_fields.values()]
        for name in given if isinstance(given, Mapping) else ():
            if name not in fields and not is_resource(name):
                known = [*fields, *(own for own in OWN_RESOURCES if own not in fields), f"{HUGE_PAGES}2Mi"]
                near = difflib.get_close_matches(name, known, 1, 0.7)
                fix = (
                    f"did you mean {near[0]}? Rename the key"
                    if near
                    else "remove the key, or write the name with its domain"
                )
                raise refusal(f"{', '.join(known)}, or {EXTENDED}", fix, name, given[name])
        return given

    @property
    def others(self) -> dict[str, str]:
        """Resource name -> quantity, for the keys that are not fields of the section."""
        return dict(sorted(self.__pydantic_extra__.items()))


class Requests(Amounts):
    """What the scheduler reserves for one replica.

    Other keys are the names of further container resources, for example `ephemeral-storage`.
    """

    cpu: Quantity = setting(
        about="CPU that the scheduler reserves for a replica.",
        default="250m",
        allowed="a quantity of CPUs, at most the limit",
        examples=["250m"],
        paths=in_container("resources.requests.cpu"),
    )
    memory: Quantity = setting(
        about="Memory that the scheduler reserves for a replica.",
        default="512Mi",
        allowed="a quantity of bytes, at most the limit",
        examples=["512Mi"],
        paths=in_container("resources.requests.memory"),
    )

    def quantities(self) -> dict[str, str]:
        """Resource name -> quantity, as in a container's `requests`."""
        return {"cpu": self.cpu, "memory": self.memory, **self.others}


class ResourcesConfig(Amounts):
    """Limits of one replica.

    Other keys are the names of further container resources, for example `ephemeral-storage` or `nvidia.com/mig-1g.5gb`.
    """

    cpu: Quantity = setting(
        about="CPU that a replica may use; the trainer starts one thread per CPU.",
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
        about="Number of GPUs of a replica.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[1],
        paths=in_container("resources.limits"),
    )
    gpu_resource: ExtendedResource = setting(
        about="Name of the nodes' GPU resource; change it for another vendor's GPUs, or for slices of a GPU.",
        default=GPU,
        allowed=EXTENDED,
        examples=["amd.com/gpu"],
        paths=in_container("resources.limits"),
    )
    requests: Requests = setting(
        about="What the scheduler reserves for a replica.",
        default=Requests(),
        allowed="a mapping with cpu, memory and other resources",
    )

    @model_validator(mode="after")
    def _counts_gpus_once(self) -> ResourcesConfig:
        if given := self.others.get(self.gpu_resource):
            fix = f"write `gpu: {given}` instead"
            raise refusal(f"the key gpu, which sets {self.gpu_resource}", fix, self.gpu_resource, given)
        return self

    @model_validator(mode="after")
    def _whole(self) -> ResourcesConfig:
        """Checks as ValidateResourceQuantityValue in pkg/apis/core/validation/validation.go of Kubernetes 1.34."""
        for prefix, given in (("", self.others), ("requests.", self.requests.others)):
            for name, value in given.items():
                huge = name.startswith(HUGE_PAGES)
                unit = name.removeprefix(HUGE_PAGES) if huge else "1"
                if is_counted(name) and quantity(value) % quantity(unit):
                    what = f"a whole number of pages of {unit}" if huge else "a whole number"
                    raise refusal(what, f"write for example `{name}: {unit}`", f"{prefix}{name}", value)
        return self

    @model_validator(mode="after")
    def _requests_below_limits(self) -> ResourcesConfig:
        limits = self.limits()
        for name, asked in self.requests.quantities().items():
            limit, key = limits.get(name), f"requests.{name}"
            if limit is None and is_counted(name):
                raise refusal(
                    "a request together with a limit", f"also write {name} in resources itself", key, asked
                )
            if limit is not None and quantity(asked) > quantity(limit):
                fix = f"lower {key}, or raise {name}"
                raise refusal(f"a request of at most the limit ({limit})", fix, key, asked)
            if limit is not None and is_counted(name) and quantity(asked) < quantity(limit):
                raise refusal(
                    f"the same amount as the limit ({limit}): {name} cannot be shared",
                    f"remove {key}",
                    key,
                    asked,
                )
        return self

    def limits(self) -> dict[str, str]:
        """Resource name -> quantity, as in a container's `limits`."""
        gpu = {self.gpu_resource: str(self.gpu)} if self.gpu else {}
        return {"cpu": self.cpu, "memory": self.memory, **gpu, **self.others}


def is_counted(name: str) -> bool:
    """Whether a node gives the resource `name` to containers in whole pieces, each to only one container."""
    return "/" in name or name.startswith(HUGE_PAGES)


def counted(given: Mapping[str, str]) -> dict[str, str]:
    """The resources of `given` (name -> quantity) that are counted in whole pieces: `is_counted`."""
    return {name: value for name, value in given.items() if is_counted(name)}


class Replicas(Section):
    """Number of pods of each type."""

    model_config = every_key(
        changing=Outcome.JOB_REPLACED,
        paths=Counterpart(
            "pytorchReplicaSpecs.*.replicas",
            "trainer.numNodes, TrainingRuntime: mlPolicy.numNodes",
            "Master and Worker are one kind of replica; rank 0 is the pod with index 0.",
        ),
    )

    master: Annotated[Whole, Field(ge=1, le=1)] | None = setting(
        about="Number of Master pods; the Master has rank 0.",
        default=1,
        allowed="1, or null for an elastic job",
        examples=[1],
    )
    worker: Count | None = setting(
        about="Number of Worker pods.",
        default=1,
        allowed="a whole number of at least 1, or null for none",
        examples=[1],
    )

    @property
    def total(self) -> int:
        """Pods of all types."""
        return (self.master or 0) + (self.worker or 0)
