"""What `toolchain/` reads from a stack file: the cluster, how to reach it, the claim, and what may be applied.

Only the sections for this are validated: a stack with a wrong job can still be taken down.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from infra import paths
from infra.cluster_kinds import ClusterKind
from infra.config.errors import ConfigError
from infra.config.load import Sections, from_file, read, source, stack_name, validated
from infra.config.operator import OperatorApi, Queueing

ASKED_FOR = ("cluster", "operator", "protected")


@dataclass(frozen=True)
class ClusterAccess:
    """A stack's cluster, how it is reached, and what is applied there.

    Parameters:
        cluster: name of the cluster; None for an existing cluster, which the stack does not create.
        kubeconfig: absolute path of the cluster's kubeconfig; None for the file that kubectl finds by itself.
        context: the context in this file; None for its current context.
        namespace: the jobs' namespace.
        protected: whether only reviewed changes are applied.
        is_named: whether the stack file names the cluster by server or id: another cluster is then refused.
        models_are_here: whether the volume is a folder of this clone; false if another section of the file is wrong.
        claim: name of the models' claim; None if another section of the file is wrong.
        claim_may_wait: whether this claim may be Pending.
        uses_gpu_base: whether the image is built on the GPU base.
        jobs_leave: whether finished jobs are deleted after some time.
    """

    kind: ClusterKind
    cluster: str | None
    kubeconfig: str | None
    context: str | None
    namespace: str
    operator_api: OperatorApi
    queue: Queueing
    protected: bool
    is_named: bool
    models_are_here: bool
    claim: str | None
    claim_may_wait: bool
    uses_gpu_base: bool
    jobs_leave: bool

    @property
    def wants_trainer(self) -> bool:
        """Whether the jobs are for Kubeflow Trainer v2."""
        return self.operator_api is OperatorApi.V2

    @property
    def controllers(self) -> list[str]:
        """The needed controllers except the training-operator, with the names of toolchain/images/cluster_images.py."""
        trainer = ["trainer"] if self.wants_trainer else []
        return [*trainer, *(["kueue"] if self.queue is Queueing.KUEUE else [])]


def access(file: Path) -> ClusterAccess:
    """The cluster of the stack whose file is stacks/Pulumi.<stack>.yaml. Raises ConfigError."""
    sections = valid_sections(file)
    cluster = sections.cluster
    name = cluster.name_for(stack_name(file)) if cluster.kind.is_ours else None
    try:
        stack = from_file(file)
    except ConfigError:
        stack = None
    return ClusterAccess(
        kind=cluster.kind,
        cluster=name,
        kubeconfig=str(paths.kubeconfig(name)) if name else cluster.kubeconfig,
        context=cluster.context,
        namespace=cluster.namespace,
        operator_api=sections.operator.api,
        queue=sections.operator.queue,
        protected=sections.protected,
        is_named=bool(cluster.server or cluster.id),
        models_are_here=bool(stack and stack.models_are_here),
        claim=stack.claim if stack else None,
        claim_may_wait=bool(stack and stack.claim_may_wait),
        uses_gpu_base=bool(stack and stack.image.uses_gpu_base),
        jobs_leave=bool(
            stack and any(job.run_policy.ttl_seconds_after_finished is not None for job in stack.jobs)
        ),
    )


def valid_sections(file: Path) -> Sections:
    """The sections ASKED_FOR of a stack file; the other sections may be wrong. Raises ConfigError."""
    found = read(file)
    asked = {name: found[name] for name in ASKED_FOR if name in found}
    return validated(asked, source(file, os.path.relpath(file)))
