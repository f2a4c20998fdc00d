"""Section `operator`: the API of the jobs, and whether the stack installs the operator and Kueue."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import model_validator

from infra.config.cluster import ClusterConfig
from infra.config.names import DnsLabel
from infra.config.section import Count, Outcome, Section, refusal, setting

# Where upstream installs its operator.
OPERATOR_NAMESPACE = "kubeflow"
# Kueue ignores jobs in its own namespace (managedJobsNamespaceSelector), so no job uses this namespace.
KUEUE_NAMESPACE = "kueue-system"


class Install(StrEnum):
    """When the stack installs the training-operator."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class OperatorApi(StrEnum):
    """`v1`: a PyTorchJob of the training-operator. `v2`: a TrainJob of Kubeflow Trainer, which runs on JobSet."""

    V1 = "v1"
    V2 = "v2"


class Queueing(StrEnum):
    """With `kueue`, Kueue admits a job of a queue as soon as the queue's quota has room for all replicas."""

    NONE = "none"
    KUEUE = "kueue"


class OperatorConfig(Section):
    """With `install: auto`, an existing operator is used, and never changed or deleted."""

    api: OperatorApi = setting(
        about="The API of the jobs: v1 for PyTorchJobs, v2 for the TrainJobs of Kubeflow Trainer.",
        default=OperatorApi.V1,
        changing=Outcome.JOB_REPLACED,
        note="The operator is replaced, too. The run continues with the same id.",
    )

    install: Install = setting(
        about="When the stack installs the operator; auto: only if the cluster has none.",
        default=Install.AUTO,
        changing=Outcome.IN_PLACE,
    )

    queue: Queueing = setting(
        about=(
            "Who admits jobs that name a queue. With kueue, the stack uses the Kueue of the cluster. If the cluster "
            "has no Kueue, `install` decides whether the stack installs it: see [Queues](kueue.md)."
        ),
        default=Queueing.NONE,
        changing=Outcome.IN_PLACE,
        note="Kueue is installed or removed.",
    )

    namespace: DnsLabel = setting(
        about=(
            "Namespace of the operator that the stack installs, and of the Secret with its webhook's private key; "
            "created if missing."
        ),
        default=OPERATOR_NAMESPACE,
        allowed="a namespace's name",
        examples=["training-operator"],
        changing=Outcome.IN_PLACE,
    )

    concurrency: Count | None = setting(
        about="How many jobs the installed operator handles at once; default: 1 for `api: v1`, 5 for `api: v2`.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[8],
        changing=Outcome.IN_PLACE,
    )

    qps: Count | None = setting(
        about=(
            "Requests per second that the operator may send to the API server over time; default: 20 for `api: v1`, 50 "
            "for `api: v2`."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[200],
        changing=Outcome.IN_PLACE,
    )

    burst: Count | None = setting(
        about=(
            "Number of requests that the operator may send at once, before `qps` limits them; default: 30 for "
            "`api: v1`, 100 for `api: v2`."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[400],
        changing=Outcome.IN_PLACE,
    )

    @model_validator(mode="before")
    @classmethod
    def _has_no_gang(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "gang" in given:
            fix = (
                "write `operator: {queue: kueue}`, the quota as `cluster.queue`, and the name of one of its queues as "
                "`job.queue`: see docs/kueue.md"
            )
            raise refusal(
                "no such key: Kueue starts all replicas of a job together", fix, "gang", given["gang"]
            )
        return given

    def installs(self, cluster: ClusterConfig) -> bool:
        """Whether the stack installs an operator. Assumes that an existing cluster has an operator already."""
        return self.install is Install.ALWAYS or (cluster.kind.is_ours and self.install is Install.AUTO)

    def takes_reports(self, cluster: ClusterConfig) -> bool:
        """Whether the stack installs a Trainer that takes reports of a TrainJob's progress.

        Only in a kind cluster. Such a Trainer stops at its start if it cannot reach the issuer of the cluster's tokens,
        and in other clusters the issuer may be anywhere (Init in pkg/statusserver/auth.go of Kubeflow Trainer 2.3.0).
        """
        return self.api is OperatorApi.V2 and cluster.kind.has_our_nodes and self.installs(cluster)
