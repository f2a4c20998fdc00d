"""One TrainJob: its pods are those of Jobs of the JobSet that it owns."""

from __future__ import annotations

from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.objects.job_kinds import JOBSET, TRAINJOB, JobKind
from infra.objects.kinds import JOB
from infra.run.job_api import JobApi, owner

JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"


def api_of(kind: JobKind) -> type[JobApi]:
    """What finds the pods of jobs of `kind`."""
    return TrainJobApi if kind is TRAINJOB else JobApi


class TrainJobApi(JobApi):
    """As JobApi. Pods and events are found through the JobSet, which has the TrainJob's name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobset = ""

    def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
        """The job's own pods; those of an earlier job of its name are not."""
        if found := self._pods_of(self.jobset, latest):
            return found
        self.jobset = self._jobset()
        return self._pods_of(self.jobset, latest)

    def has_parts(self) -> bool:
        """Whether its JobSet is there, or a pod of the last one that was."""
        found = self._jobset()
        self.jobset = found or self.jobset
        return bool(found or self._pods_of(self.jobset, latest=True))

    def _pods_of(self, jobset: str, latest: bool) -> list[dict[str, Any]]:
        return self._pods_with(JOBSET_UID, jobset, latest) if jobset else []

    def warnings(self) -> list[dict[str, Any]]:
        """The events of type Warning of the TrainJob, its JobSet and its Jobs: why pods cannot be created."""
        jobset = self._jobset()
        makers = [self.uid, *([jobset, *self._jobs_of(jobset)] if jobset else [])]
        return [event for uid in makers for event in self.warnings_about(uid)]

    def _jobset(self) -> str:
        """The uid of the JobSet; empty as long as there is none of this TrainJob's."""
        try:
            found = self._ask(lambda: self.cluster.get(JOBSET, self.name, self.namespace))
        except ApiException as error:
            if error.status == 404:
                return ""
            raise
        return str(found["metadata"]["uid"]) if owner(found) == self.uid else ""

    def _jobs_of(self, jobset: str) -> list[str]:
        """The uids of the JobSet's Jobs."""
        selector = f"{JOBSET_UID}={jobset}"
        found = self._ask(lambda: self.cluster.listed(JOB, self.namespace, labels=selector))
        return [str(each["metadata"]["uid"]) for each in found]
