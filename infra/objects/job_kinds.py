"""The kinds of the Kubernetes API that a job of the stack file may become, and how their operators are recognized."""

from __future__ import annotations

from dataclasses import dataclass

from infra.config.operator import OperatorApi
from infra.objects import pytorchjob


@dataclass(frozen=True)
class Kind:
    """A kind by its names in the API."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """As in a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def resource(self) -> str:
        """As kubectl takes it, whatever other groups call theirs."""
        return f"{self.plural}.{self.version}.{self.group}"

    @property
    def crd(self) -> str:
        """The name of its definition."""
        return f"{self.plural}.{self.group}"


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
    kind=pytorchjob.KIND,
    group=pytorchjob.GROUP,
    version=pytorchjob.VERSION,
    plural=pytorchjob.PLURAL,
    container="pytorch",
    crds=(pytorchjob.CRD,),
    selector=pytorchjob.OPERATOR_SELECTOR,
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
