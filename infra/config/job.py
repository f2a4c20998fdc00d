"""Section `job` (or each entry of `jobs`): one PyTorchJob."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from infra.config.names import AbsolutePath, DnsName, JobName, Quantity
from infra.config.policies import ElasticPolicy, RestartPolicy, RunPolicy
from infra.config.resources import ResourcesConfig
from infra.config.section import Count, Section, Whole, refusal
from infra.config.training import Backend, TrainingConfig, options


class NcclDebug(StrEnum):
    VERSION = "VERSION"
    WARN = "WARN"
    INFO = "INFO"
    TRACE = "TRACE"


class Replicas(Section):
    master: Annotated[Whole, Field(ge=1, le=1)] | None = Field(
        default=1, description="1, or null for an elastic job", examples=[1]
    )
    worker: Count | None = Field(
        default=1, description="a whole number of at least 1, or null for none", examples=[1]
    )

    @property
    def total(self) -> int:
        return (self.master or 0) + (self.worker or 0)


class Nccl(Section):
    """NCCL's own settings, by its environment variables."""

    socket_interface: str | None = Field(
        default=None, min_length=1, description="the network interface between pods", examples=["eth0"]
    )
    debug: NcclDebug | None = Field(default=None, description="NCCL's log level")
    disable_infiniband: bool = Field(default=False, description="true or false", examples=["true"])
    disable_peer_to_peer: bool = Field(default=False, description="true or false", examples=["true"])

    def environment(self) -> dict[str, str]:
        chosen = {
            "NCCL_SOCKET_IFNAME": self.socket_interface,
            "NCCL_DEBUG": self.debug.value if self.debug else None,
            "NCCL_IB_DISABLE": "1" if self.disable_infiniband else None,
            "NCCL_P2P_DISABLE": "1" if self.disable_peer_to_peer else None,
        }
        return {name: value for name, value in chosen.items() if value is not None}


class Toleration(Section):
    key: str | None = Field(default=None, description="a taint's key", examples=["nvidia.com/gpu"])
    operator: str = Field(default="Exists", pattern="^(Exists|Equal)$", description="Exists or Equal")
    value: str | None = Field(default=None, description="a taint's value", examples=["present"])
    effect: str | None = Field(
        default=None,
        pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$",
        description="NoSchedule, PreferNoSchedule or NoExecute",
        examples=["NoSchedule"],
    )


TEXTS = "a mapping of text to text; quote numbers and true/false"


class JobConfig(Section):
    name: JobName = Field(description="the PyTorchJob's name", examples=["mnist"])
    replicas: Replicas = Field(default=Replicas(), description="a mapping with master and worker")
    restart_policy: RestartPolicy = Field(default=RestartPolicy.ON_FAILURE, description="a restart policy")
    command: tuple[str, ...] = Field(
        default=(),
        description="a list of words; without it the image's entry point runs",
        examples=["[python3, x.py]"],
    )
    args: tuple[str, ...] = Field(default=(), description="a list of words", examples=['["--no-cuda"]'])
    training: TrainingConfig = Field(
        default=TrainingConfig(), description="a mapping of the trainer's options"
    )
    env: dict[str, str] = Field(default_factory=dict, description=TEXTS, examples=["{OMP_NUM_THREADS: '1'}"])
    resources: ResourcesConfig = Field(
        default=ResourcesConfig(), description="a mapping with cpu, memory, gpu"
    )
    run_policy: RunPolicy = Field(default=RunPolicy(), description="a mapping")
    elastic_policy: ElasticPolicy | None = Field(default=None, description="a mapping")
    nproc_per_node: Count = Field(
        default=1, description="processes that torchrun starts in a pod, at least 1", examples=[1]
    )
    annotations: dict[str, str] = Field(default_factory=dict, description=TEXTS, examples=["{team: vision}"])
    labels: dict[str, str] = Field(default_factory=dict, description=TEXTS, examples=["{team: vision}"])
    priority_class: DnsName | None = Field(
        default=None, description="a priority class's name", examples=["high"]
    )
    image_pull_secrets: tuple[DnsName, ...] = Field(
        default=(), description="a list of Secrets' names", examples=["[registry]"]
    )
    shm_size: Quantity | None = Field(default=None, description="size of /dev/shm", examples=["1Gi"])
    nccl: Nccl = Field(default=Nccl(), description="a mapping of NCCL's settings")
    node_selector: dict[str, str] = Field(default_factory=dict, description=TEXTS, examples=["{gpu: 'true'}"])
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="a list of tolerations", examples=["[{key: nvidia.com/gpu}]"]
    )
    runtime_class: DnsName | None = Field(
        default=None, description="a runtime class's name", examples=["nvidia"]
    )
    spread: bool = Field(default=True, description="true spreads replicas over nodes", examples=["true"])
    model: str | None = Field(
        default="mnist_cnn.pt",
        pattern=r"^[\w][\w.-]*$",
        description="the file that the job leaves on the volume, or null where it leaves none",
        examples=["mnist_cnn.pt"],
    )
    datasets_path: AbsolutePath = Field(
        default="/data", description="where the pods see the data folder", examples=["/data"]
    )

    @model_validator(mode="after")
    def _consistent(self) -> JobConfig:
        given = self.training.backend or _option("--backend", self.words)
        if given == Backend.NCCL and not self.resources.gpu:
            raise refusal(
                "at least 1 where the backend is nccl",
                "set `resources: {gpu: 1}`, or `backend: gloo`",
                "resources.gpu",
                self.resources.gpu,
            )
        for name, value in options(self.training).items():
            if _option(f"--{name}", self.words) is not None:
                fix = f"keep it in training, and take --{name} out of command and args"
                raise refusal(f"--{name} in one place", fix, f"training.{name}", value)
        if self.elastic_policy and self.replicas.worker is None:
            raise refusal("at least 1 with elasticPolicy", "set `worker: 1`", "replicas.worker", None)
        if not self.replicas.total:
            raise refusal("at least one replica", "set `master: 1`", "replicas.master", None)
        if self.replicas.master is None and self.elastic_policy is None:
            raise refusal("1 unless elasticPolicy is set", "set `master: 1`", "replicas.master", None)
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


def _option(name: str, words: tuple[str, ...]) -> str | None:
    for place, word in enumerate(words):
        if word == name:
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
