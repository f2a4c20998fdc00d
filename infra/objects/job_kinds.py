"""Kinds that a job of the stack file may become, those of Kueue, and how their controllers are known."""

from __future__ import annotations

from dataclasses import dataclass

from infra.config.operator import OperatorApi
from infra.objects.kinds import Kind

KUEUE = "kueue.x-k8s.io"
"""Kueue's group."""
# Selects the Deployment of Kueue, whoever installed it: its manifests and its chart have the label.
KUEUE_SELECTOR = "app.kubernetes.io/name=kueue"
CLUSTER_QUEUE = Kind.of("ClusterQueue", f"{KUEUE}/v1beta2")
LOCAL_QUEUE = Kind.of("LocalQueue", CLUSTER_QUEUE.api_version)
FLAVOR = Kind.of("ResourceFlavor", CLUSTER_QUEUE.api_version)
PRIORITY_CLASS = Kind("WorkloadPriorityClass", KUEUE, CLUSTER_QUEUE.version, "workloadpriorityclasses")
WORKLOAD = Kind.of("Workload", CLUSTER_QUEUE.api_version)
QUEUE_KINDS = (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR, PRIORITY_CLASS)
# What scheduler-plugins had defined: a stack of an earlier release may have brought it.
GANG_KINDS = tuple(
    Kind(kind, "scheduling.x-k8s.io", "v1alpha1", plural)
    for kind, plural in (("PodGroup", "podgroups"), ("ElasticQuota", "elasticquotas"))
)


@dataclass(frozen=True)
class JobKind(Kind):
    """One kind of job.

    Parameters:
        container: of a replica's pod; the controller looks for it.
        crds: every CRD that its controllers need, its own last.
        selector: selects its controller's Deployment, whoever installed it.
        beneath: another project's kind that it runs on; None where there is none.
    """

    container: str
    crds: tuple[str, ...]
    selector: str
    beneath: Kind | None = None


PYTORCHJOB = JobKind(
    kind="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    plural="pytorchjobs",
    container="pytorch",
    crds=("pytorchjobs.kubeflow.org",),
    selector="control-plane=kubeflow-training-operator",
)
DEFINITION = "CustomResourceDefinition"
TRAINER_GROUP = "trainer.kubeflow.org"
JOBSET = Kind("JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets")
RUNTIME = "TrainingRuntime"
TRAINJOB = JobKind(
    kind="TrainJob",
    group=TRAINER_GROUP,
    version="v1alpha1",
    plural="trainjobs",
    # pkg/constants of the trainer: the job and the container of this name are the replicas.
    container="node",
    crds=(
        JOBSET.crd,
        f"clustertrainingruntimes.{TRAINER_GROUP}",
        f"trainingruntimes.{TRAINER_GROUP}",
        f"trainjobs.{TRAINER_GROUP}",
    ),
    selector="app.kubernetes.io/name=trainer,app.kubernetes.io/component=manager",
    beneath=JOBSET,
)
OF_API = {OperatorApi.V1: PYTORCHJOB, OperatorApi.V2: TRAINJOB}
"""What `operator.api` says -> the kind of job."""
# What is installed for all of a cluster's users may be used through any of these.
SHARED: tuple[Kind, ...] = (*OF_API.values(), JOBSET)
NAMES = {each.kind: each for each in OF_API.values()}
"""The name of a kind -> the kind."""
