"""Sections `job.runPolicy` and `job.elasticPolicy`: field by field what the v1 PyTorchJob offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from infra.config.names import DnsName, Quantity
from infra.config.section import Count, Natural, Section, Whole, refusal


class RestartPolicy(StrEnum):
    """`ExitCode`: exit codes 1-127 are final, 128-255 are tried again."""

    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class CleanPodPolicy(StrEnum):
    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class RendezvousBackend(StrEnum):
    C10D = "c10d"
    ETCD = "etcd"
    ETCD_V2 = "etcd-v2"


class SchedulingPolicy(Section):
    min_available: Count | None = Field(
        default=None, description="replicas started together, at least 1", examples=[2]
    )
    queue: str | None = Field(default=None, min_length=1, description="a queue's name", examples=["default"])
    min_resources: dict[str, Quantity] | None = Field(
        default=None, description="resource names to quantities", examples=["{cpu: 2}"]
    )
    priority_class: DnsName | None = Field(
        default=None, description="a priority class's name", examples=["high"]
    )
    schedule_timeout_seconds: Count | None = Field(
        default=None, description="seconds, at least 1", examples=[300]
    )


class RunPolicy(Section):
    backoff_limit: Natural = Field(
        default=3, description="restarts before the job fails, at least 0", examples=[3]
    )
    active_deadline_seconds: Count = Field(
        default=3600, description="seconds until the job is ended, at least 1", examples=[3600]
    )
    ttl_seconds_after_finished: Natural | None = Field(
        default=None, description="seconds, at least 0; only for renderings", examples=[86400]
    )
    clean_pod_policy: CleanPodPolicy = Field(default=CleanPodPolicy.NONE, description="None, Running or All")
    suspend: bool = Field(default=False, description="true or false", examples=["false"])
    scheduling_policy: SchedulingPolicy | None = Field(default=None, description="a mapping: gang scheduling")


class ElasticPolicy(Section):
    min_replicas: Count | None = Field(default=None, description="workers, at least 1", examples=[1])
    max_replicas: Count | None = Field(
        default=None, description="workers, at least minReplicas", examples=[3]
    )
    rdzv_backend: RendezvousBackend = Field(
        default=RendezvousBackend.C10D, description="a rendezvous backend"
    )
    rdzv_port: Whole | None = Field(
        default=None, ge=1, le=65535, description="a port, 1 to 65535", examples=[29400]
    )
    rdzv_host: DnsName | None = Field(default=None, description="a host name", examples=["etcd"])
    rdzv_id: str | None = Field(default=None, min_length=1, description="text", examples=["mnist"])
    standalone: bool | None = Field(default=None, description="true or false", examples=["false"])
    max_restarts: Natural | None = Field(default=None, description="at least 0", examples=[3])
    metrics: tuple[dict[str, Any], ...] | None = Field(
        default=None, description="a list of autoscaling/v2 MetricSpec mappings", examples=["[]"]
    )

    @model_validator(mode="after")
    def _ordered(self) -> ElasticPolicy:
        if self.min_replicas and self.max_replicas and self.min_replicas > self.max_replicas:
            raise refusal(
                f"at least minReplicas ({self.min_replicas})",
                f"write `maxReplicas: {self.min_replicas}` or lower minReplicas",
                "maxReplicas",
                self.max_replicas,
            )
        return self
