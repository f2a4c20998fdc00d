"""Values of keys of a job that have no counterpart in a TrainJob."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from infra.config.job import JobConfig
from infra.config.names import JOB_NAME_LENGTH
from infra.config.operator import OperatorApi
from infra.config.run_policies import CleanPodPolicy, RestartPolicy

# JobSet refuses longer names of pods than these: <job>-node-0-<index>-<5 letters> (pkg/webhooks of JobSet 0.12.0).
POD_NAME_LENGTH = 63
AROUND_INDEX = len("-node-0-") + len("-abcde")


@dataclass(frozen=True)
class Refusal:
    """A value that has no counterpart in a TrainJob.

    Parameters:
        is_given: the value, where the job has it, else None.
        allowed: which values are, with v2.
        fix: how to mend it.
    """

    is_given: Callable[[JobConfig], object | None]
    allowed: str
    fix: str


def _unless(value: object, usual: object) -> object | None:
    return None if value == usual else value


def name_length(api: OperatorApi, job: JobConfig) -> int:
    """How long the name of `job` may be at most."""
    if api is OperatorApi.V1:
        return JOB_NAME_LENGTH
    return POD_NAME_LENGTH - AROUND_INDEX - len(str(job.replicas.total - 1))


REFUSED: dict[str, Refusal] = {
    "name": Refusal(
        lambda job: job.name if len(job.name) > name_length(OperatorApi.V2, job) else None,
        f"{POD_NAME_LENGTH - AROUND_INDEX - 1} characters at most where operator.api is v2, fewer with more than ten "
        "replicas: JobSet's pods have longer names than those of a PyTorchJob",
        "choose a shorter name",
    ),
    "restartPolicy": Refusal(
        lambda job: job.restart_policy.value if job.restart_policy is RestartPolicy.ALWAYS else None,
        "OnFailure, Never or ExitCode where operator.api is v2: a batch/v1 Job's pods are not started again for ever",
        "write `restartPolicy: OnFailure`",
    ),
    "runPolicy.ttlSecondsAfterFinished": Refusal(
        lambda job: job.run_policy.ttl_seconds_after_finished,
        "nothing where operator.api is v2: a TrainJob has no such field",
        "remove it",
    ),
    "runPolicy.cleanPodPolicy": Refusal(
        lambda job: _unless(job.run_policy.clean_pod_policy.value, CleanPodPolicy.NONE.value),
        "None where operator.api is v2: a TrainJob has no such field, and finished pods stay",
        "write `cleanPodPolicy: None`",
    ),
    **{
        f"runPolicy.schedulingPolicy.{to_camel(name)}": Refusal(
            lambda job, name=name: (
                job.run_policy.scheduling_policy  # type: ignore[misc]
                and getattr(job.run_policy.scheduling_policy, name)
            ),
            "nothing where operator.api is v2: a gang of Trainer is all replicas with what they ask for",
            "remove it, or write `operator: {api: v1}`",
        )
        for name in ("min_available", "queue", "min_resources", "priority_class")
    },
    "elasticPolicy": Refusal(
        lambda job: job.elastic_policy and "(present)",
        "nothing where operator.api is v2: Trainer 2.3 has no elastic jobs",
        "remove it, or write `operator: {api: v1}`",
    ),
}
"""The path of a key below `job` -> the value that v2 refuses."""
