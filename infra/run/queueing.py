"""Whether Kueue can admit a job that waits in one of its queues."""

from __future__ import annotations

from kubernetes.client.exceptions import ApiException

from infra.objects.kinds import Kind
from infra.objects.patience import is_transient
from infra.run.job_api import JobApi
from infra.run.job_status import Trouble

GROUP = "kueue.x-k8s.io"
NOT_FOUND = 404


def troubles(api: JobApi, queue: str) -> list[Trouble]:
    """A trouble where the LocalQueue is missing, so that nobody admits the job; none where that cannot be asked."""
    if is_there(api, queue):
        return []
    message = f"namespace {api.namespace} has no LocalQueue of this name, so nobody admits the job"
    return [Trouble(f"queue {queue}", "NoSuchQueue", message)]


def is_there(api: JobApi, queue: str) -> bool:
    """Whether the job's namespace has this LocalQueue. True also where this user may not look, or no server answers."""
    try:
        version = api.cluster.preferred_version(GROUP)
        api.cluster.get(Kind("LocalQueue", GROUP, version, "localqueues"), queue, api.namespace)
    except ApiException as error:
        return bool(error.status != NOT_FOUND)
    except Exception as error:
        if not is_transient(error):
            raise
    return True
