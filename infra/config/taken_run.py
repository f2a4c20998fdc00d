"""What a job needs that takes a finished run (`runId`): one replica, whatever its training had."""

from __future__ import annotations

from infra.config.job import JobConfig
from infra.config.replicas import Replicas


def with_one_process(job: JobConfig) -> JobConfig:
    """`job` with one replica of one process.

    Nothing is trained, so no ranks meet. A second pod would even wait for ever: rank 0 ends before the other's init
    container has seen it listen.
    """
    policy = job.run_policy
    if policy.scheduling_policy:
        gang = {"min_available": None, "min_resources": None}
        policy = policy.model_copy(
            update={"scheduling_policy": policy.scheduling_policy.model_copy(update=gang)}
        )
    one = {"replicas": Replicas(master=1, worker=None), "elastic_policy": None, "nproc_per_node": 1}
    return job.model_copy(update={**one, "run_policy": policy})
