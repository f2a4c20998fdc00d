"""Kinds for a job of the stack file, kinds of Kueue, and the labels of their controllers."""

from __future__ import annotations

from dataclasses import dataclass

from infra.config.operator import OperatorApi
from infra.objects.kinds import Kind

KUEUE = "kueue.x-k8s.io"
"""Kueue's group."""
# Selects the Deployment of Kueue. Its manifests and its chart both set the label.
KUEUE_SELECTOR = "app.kubernetes.io/name=kueue"
CLUSTER_QUEUE = Kind.of("ClusterQueue", f"{KUEUE}/v1beta2")
LOCAL_QUEUE = Kind.of("LocalQueue", CLUSTER_QUEUE.api_version)
FLAVOR = Kind.of("ResourceFlavor", CLUSTER_QUEUE.api_version)
PRIORITY_CLASS = Kind("WorkloadPriorityClass", KUEUE, CLUSTER_QUEUE.version, "workloadpriorityclasses")
WORKLOAD = Kind.of("Workload", CLUSTER_QUEUE.api_version)
QUEUE_KINDS = (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR, PRIORITY_CLASS)
# Defined by scheduler-plugins: a stack of an earlier release may have installed it.
GANG_KINDS = tuple(Kind.of(kind, "scheduling.x-k8s.io/v1alpha1") for kind in ("PodGroup", "ElasticQuota"))


@dataclass(frozen=True)
class JobKind(Kind):
    """One kind of job.

    Parameters:
        container: name of the container in a replica's pod; the controller looks for this name.
        crds: every CRD that the kind's controllers need; the last one is the CRD of this kind.
        selector: selects the Deployment of the kind's controller, also a Deployment that somebody else installed.
        beneath: another project's kind. The controller creates objects of this kind for its jobs; None without one.
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
    # Name of the replicas' job and container, from pkg/constants of the trainer.
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
"""Value of `operator.api` -> the kind of job."""
# Kinds that all users of a cluster may use once they are installed.
SHARED: tuple[Kind, ...] = (*OF_API.values(), JOBSET)
NAMES = {each.kind: each for each in OF_API.values()}
"""The name of a kind -> the kind."""
