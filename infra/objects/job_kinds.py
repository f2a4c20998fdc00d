"""Kinds that a job of the stack file may become, the kinds of scheduler-plugins, and how their operators are known."""

from __future__ import annotations

from dataclasses import dataclass

from infra.config.operator import OperatorApi
from infra.objects.kinds import Kind

# Upstream's chart calls the Deployment so, and its scheduler; published examples of pods name it.
GANG_SCHEDULER = "scheduler-plugins-scheduler"
# Selects the Deployment of any second scheduler; the image tells whose.
SCHEDULER_SELECTOR = "component=scheduler"
SCHEDULER_IMAGE = "scheduler-plugins/"
# PodGroupLabel in apis/scheduling/v1alpha1 of scheduler-plugins.
POD_GROUP = "scheduling.x-k8s.io/pod-group"
PODGROUP = Kind("PodGroup", "scheduling.x-k8s.io", "v1alpha1", "podgroups")
# Its controller reconciles both, and ends where one is missing.
GANG_KINDS = (PODGROUP, Kind("ElasticQuota", PODGROUP.group, PODGROUP.version, "elasticquotas"))
GANG_CRDS = tuple(each.crd for each in GANG_KINDS)


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
