"""Section `operator`: whether the training-operator is ours to install."""

from __future__ import annotations

from enum import StrEnum

from infra.config.cluster import ClusterConfig
from infra.config.names import DnsLabel
from infra.config.section import Count, Outcome, Section, setting

# Where upstream installs its operator.
OPERATOR_NAMESPACE = "kubeflow"


class Install(StrEnum):
    """When the stack installs the training-operator."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class OperatorApi(StrEnum):
    """`v1`: a PyTorchJob of the training-operator. `v2`: a TrainJob of Kubeflow Trainer, which runs on JobSet."""

    V1 = "v1"
    V2 = "v2"


class Gang(StrEnum):
    """`scheduler-plugins`: a second scheduler with the plugin Coscheduling starts all replicas of a job or none."""

    NONE = "none"
    SCHEDULER_PLUGINS = "scheduler-plugins"


class OperatorConfig(Section):
    """With `auto`, an operator that was there before is used, never changed and never deleted."""

    api: OperatorApi = setting(
        about="The API that the jobs are written for: v1 the PyTorchJob, v2 the TrainJob of Kubeflow Trainer.",
        default=OperatorApi.V1,
        changing=Outcome.JOB_REPLACED,
        note="The operator is replaced, too. The run goes on under its id.",
    )

    install: Install = setting(
        about="When the stack installs the operator: where there is none, always, or never.",
        default=Install.AUTO,
        changing=Outcome.IN_PLACE,
    )

    gang: Gang = setting(
        about="Who starts the replicas of a job together or not at all: nobody, or Kubernetes' scheduler-plugins.",
        default=Gang.NONE,
        changing=Outcome.JOB_REPLACED,
        note="The scheduler is installed or removed, and the operator starts anew.",
    )

    namespace: DnsLabel = setting(
        about="Namespace of an operator that the stack installs, and of its webhook's key; made where it is missing.",
        default=OPERATOR_NAMESPACE,
        allowed="a namespace's name",
        examples=["training-operator"],
        changing=Outcome.IN_PLACE,
    )

    concurrency: Count | None = setting(
        about="How many jobs an operator that the stack installs handles at the same time; without it 1, with v2 5.",
        default=None,
        allowed="a whole number from 1 on",
        examples=[8],
        changing=Outcome.IN_PLACE,
    )

    qps: Count | None = setting(
        about="Requests a second that it sends to the API server for long; without it 20, with v2 50.",
        default=None,
        allowed="a whole number from 1 on",
        examples=[200],
        changing=Outcome.IN_PLACE,
    )

    burst: Count | None = setting(
        about="Requests that it may send at once before `qps` holds it back; without it 30, with v2 100.",
        default=None,
        allowed="a whole number from 1 on",
        examples=[400],
        changing=Outcome.IN_PLACE,
    )

    def installs(self, cluster: ClusterConfig) -> bool:
        """Whether the stack brings an operator, without asking the cluster: somebody else's is taken to have one."""
        return self.install is Install.ALWAYS or (cluster.kind.is_ours and self.install is Install.AUTO)

    def takes_reports(self, cluster: ClusterConfig) -> bool:
        """Whether a trainer that the stack installs takes reports of how far a TrainJob is.

        Only in a cluster of kind: a controller that takes them ends at its start where it cannot reach the issuer of
        the cluster's tokens, which may be anywhere (Init in pkg/statusserver/auth.go of Kubeflow Trainer 2.3.0).
        """
        return self.api is OperatorApi.V2 and cluster.kind.has_our_nodes and self.installs(cluster)
