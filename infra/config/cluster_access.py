"""A stack's cluster, how it is reached, its claim, what may be applied: what `toolchain/` asks a stack file.

Only what is asked for is validated: a stack whose job is wrong can still be taken down.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from infra import paths
from infra.cluster_kinds import ClusterKind
from infra.config.errors import ConfigError, explain
from infra.config.load import Sections, from_file, read, source, stack_name
from infra.config.operator import OperatorApi, Queueing

ASKED_FOR = ("cluster", "operator", "protected")


@dataclass(frozen=True)
class ClusterAccess:
    """A stack's cluster, how it is reached, and what is applied there.

    Parameters:
        cluster: name of the cluster; None for one that the stack does not make.
        kubeconfig: absolute path of the file that reaches it; None for the file that kubectl finds by itself.
        context: that in the file; None for its current one.
        namespace: that of the jobs.
        protected: whether only what was reviewed is applied.
        is_named: whether another cluster than the one that the file names is refused.
        claim: name of the models' claim; None where the rest of the file is wrong.
        claim_may_wait: whether that may be Pending.
        uses_gpu_base: whether the image is built on the GPU base.
        jobs_leave: whether its jobs leave when they have finished.
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
        """What the stack needs beyond the training-operator, by the names of toolchain/images/cluster_images.py."""
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
        claim=stack.claim if stack else None,
        claim_may_wait=bool(stack and stack.claim_may_wait),
        uses_gpu_base=bool(stack and stack.image.uses_gpu_base),
        jobs_leave=bool(
            stack and any(job.run_policy.ttl_seconds_after_finished is not None for job in stack.jobs)
        ),
    )


def valid_sections(file: Path) -> Sections:
    """The sections ASKED_FOR of a stack file, whatever is wrong with the others. Raises ConfigError."""
    found = read(file)
    try:
        return Sections.model_validate({name: found[name] for name in ASKED_FOR if name in found})
    except ValidationError as error:
        raise explain(error, Sections, source(file, os.path.relpath(file))) from None
