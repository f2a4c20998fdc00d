"""Values of keys of a job that have no counterpart in a TrainJob."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infra.config.job import JobConfig
from infra.config.names import JOB_NAME_LENGTH
from infra.config.operator import OperatorApi
from infra.config.run_policies import CleanPodPolicy, RestartPolicy

# JobSet refuses longer names of pods: <job>-node-0-<index>-<5 letters> (pkg/webhooks of JobSet 0.12.0).
POD_NAME_LENGTH = 63
AROUND_INDEX = len("-node-0-") + len("-abcde")


@dataclass(frozen=True)
class Refusal:
    """A value that has no counterpart in a TrainJob.

    Parameters:
        is_given: returns the value if the job has it, else None.
        allowed: the allowed values with v2.
        fix: what to write instead.
    """

    is_given: Callable[[JobConfig], object | None]
    allowed: str
    fix: str


def _unless(value: object, usual: object) -> object | None:
    return None if value == usual else value


def name_length(api: OperatorApi, job: JobConfig) -> int:
    """The maximum length of the name of `job`."""
    if api is OperatorApi.V1:
        return JOB_NAME_LENGTH
    return POD_NAME_LENGTH - AROUND_INDEX - len(str(job.replicas.total - 1))


REFUSED: dict[str, Refusal] = {
    "name": Refusal(
        lambda job: job.name if len(job.name) > name_length(OperatorApi.V2, job) else None,
        f"at most {POD_NAME_LENGTH - AROUND_INDEX - 1} characters with `operator.api: v2`, fewer with more than ten "
        "replicas: JobSet's pods have longer names than a PyTorchJob's pods",
        "choose a shorter name",
    ),
    "restartPolicy": Refusal(
        lambda job: job.restart_policy.value if job.restart_policy is RestartPolicy.ALWAYS else None,
        "OnFailure, Never or ExitCode with `operator.api: v2`: a batch/v1 Job does not restart its pods forever",
        "write `restartPolicy: OnFailure`",
    ),
    "runPolicy.cleanPodPolicy": Refusal(
        lambda job: _unless(job.run_policy.clean_pod_policy.value, CleanPodPolicy.NONE.value),
        "None with `operator.api: v2`: a TrainJob has no such field, and finished pods stay",
        "write `cleanPodPolicy: None`",
    ),
    "runPolicy.schedulingPolicy": Refusal(
        lambda job: job.run_policy.scheduling_policy and "(present)",
        "no value with `operator.api: v2`: Trainer has no such field",
        "remove it; in a queue of Kueue (`queue`), all replicas of a job start together",
    ),
    "elasticPolicy": Refusal(
        lambda job: job.elastic_policy and "(present)",
        "no value with `operator.api: v2`: Trainer 2.3 has no elastic jobs",
        "remove it, or write `operator: {api: v1}`",
    ),
}
"""The path of a key below `job` -> the value that v2 refuses."""
