"""Sections `job.runPolicy` and `job.elasticPolicy`: the fields of the v1 PyTorchJob."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import model_validator

from infra.config.api_paths import NEITHER, Counterpart, only_v1
from infra.config.names import DnsName, Quantity
from infra.config.section import Count, Natural, Outcome, Section, Whole, every_key, refusal, setting

NO_FIELD = "A TrainJob has no such field."


class RestartPolicy(StrEnum):
    """With `ExitCode`, exit codes 1 to 127 end the job; after 128 to 255 it is tried again."""

    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class CleanPodPolicy(StrEnum):
    """Which pods the operator deletes when a job ends."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class RendezvousBackend(StrEnum):
    """torchrun's rendezvous backends, by the operator's names."""

    C10D = "c10d"
    ETCD = "etcd"
    ETCD_V2 = "etcd-v2"


class SchedulingPolicy(Section):
    """Gang scheduling.

    It works only with a training-operator that somebody else installed, together with a gang scheduler.
    """

    model_config = every_key(changing=Outcome.JOB_REPLACED, paths=only_v1(NO_FIELD))

    min_available: Count | None = setting(
        about="Number of replicas that a gang scheduler starts together or not at all.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[2],
    )
    queue: str | None = setting(
        about="Queue of the gang scheduler.",
        default=None,
        min_length=1,
        allowed="a queue's name",
        examples=["default"],
    )
    min_resources: dict[str, Quantity] | None = setting(
        about="Resources that must be free before the gang starts.",
        default=None,
        allowed="a mapping of resource names to quantities",
        examples=["{cpu: 2}"],
    )
    priority_class: DnsName | None = setting(
        about="Priority class of the gang.",
        default=None,
        allowed="a priority class's name",
        examples=["high"],
    )
    schedule_timeout_seconds: Count | None = setting(
        about="How long the gang scheduler waits for all replicas.",
        default=None,
        allowed="seconds, at least 1",
        examples=[300],
    )


class RunPolicy(Section):
    """The same as the PyTorchJob's `runPolicy`."""

    model_config = every_key(changing=Outcome.JOB_REPLACED)

    backoff_limit: Natural = setting(
        about="Number of restarts before the job counts as failed.",
        default=3,
        allowed="a whole number of at least 0",
        examples=[3],
        paths=Counterpart(
            v2="TrainingRuntime: template.spec.failurePolicy.maxRestarts",
            note=(
                "v1 adds up the restarts of all containers; v2 counts a restart of all replicas as one. With ExitCode, "
                "v1 creates another pod instead, which is no restart."
            ),
        ),
    )
    active_deadline_seconds: Count = setting(
        about="How long the job may take; after that, it is stopped and counts as failed.",
        default=3600,
        allowed="seconds, at least 1",
        examples=[3600],
        paths=Counterpart(
            "runPolicy.activeDeadlineSeconds, pytorchReplicaSpecs.*.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds",
            "The training-operator checks the deadline only when something happens, so v1's pods end by themselves one "
            "second later. Both delete the pods of a job that exceeds the deadline, and count from zero after a "
            "suspension.",
        ),
    )
    ttl_seconds_after_finished: Natural | None = setting(
        about="How long the finished job stays; then it is deleted, and its run stays: metrics, report and model.",
        default=None,
        allowed="seconds, at least 0",
        examples=[86400],
        note="Nothing is replaced if the finished job is already deleted, or with `operator.api: v2`.",
        paths=Counterpart(
            v2=NEITHER,
            note=f"{NO_FIELD} `make up` deletes a succeeded TrainJob after this time.",
        ),
    )
    clean_pod_policy: CleanPodPolicy = setting(
        about="Which pods are deleted when the job ends.",
        default=CleanPodPolicy.NONE,
        paths=only_v1(f"{NO_FIELD} Finished pods stay; another value is refused."),
    )
    suspend: bool = setting(
        about="Keep the job without pods while this is true.",
        default=False,
        examples=["false"],
        paths=Counterpart(v2="suspend"),
    )
    scheduling_policy: SchedulingPolicy | None = setting(
        about=(
            "Gang scheduling, if the cluster's training-operator has a gang scheduler. If it has none, use `job.queue` "
            "(Kueue)."
        ),
        default=None,
        changing=Outcome.JOB_REPLACED,
    )


class ElasticPolicy(Section):
    """The same as the PyTorchJob's `elasticPolicy`."""

    model_config = every_key(
        changing=Outcome.JOB_REPLACED,
        paths=only_v1("Trainer 2.3 trains with a fixed number of replicas: a value is refused."),
    )

    min_replicas: Count | None = setting(
        about="Minimum number of workers to train with.",
        default=None,
        allowed="workers, at least 1",
        examples=[1],
    )
    max_replicas: Count | None = setting(
        about="Maximum number of workers to train with.",
        default=None,
        allowed="workers, at least minReplicas",
        examples=[3],
    )
    rdzv_backend: RendezvousBackend = setting(
        about="Rendezvous backend, where the workers meet.", default=RendezvousBackend.C10D
    )
    rdzv_port: Whole | None = setting(
        about="Port of the rendezvous.",
        default=None,
        ge=1,
        le=65535,
        allowed="a port, 1 to 65535",
        examples=[29400],
    )
    rdzv_host: DnsName | None = setting(
        about="Host of the rendezvous; default: the first worker.",
        default=None,
        allowed="a host name",
        examples=["etcd"],
    )
    rdzv_id: str | None = setting(
        about="Name of the rendezvous; default: the job's name.",
        default=None,
        min_length=1,
        allowed="text",
        examples=["mnist"],
    )
    standalone: bool | None = setting(
        about="Start torchrun for one node only, if the job has one pod.",
        default=None,
        examples=["false"],
    )
    max_restarts: Natural | None = setting(
        about=(
            "How often torchrun in each worker restarts its processes after a failure; restarts for a new worker do "
            "not count."
        ),
        default=None,
        allowed="a whole number of at least 0",
        examples=[3],
    )
    metrics: tuple[dict[str, Any], ...] | None = setting(
        about="Metrics by which a HorizontalPodAutoscaler changes the number of workers.",
        default=None,
        allowed="a list of autoscaling/v2 MetricSpec mappings",
        examples=["[]"],
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
