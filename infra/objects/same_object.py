"""Whether a cluster has the very object that a stack's state holds, and not just one of its name."""

from __future__ import annotations

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import Kind

TIMEOUT_S = 5
FORBIDDEN, NOT_FOUND = 403, 404


def is_there(address: ApiAddress, kind: Kind, name: str, uid: str) -> bool:
    """Whether it may be there: in another cluster, an object of the same name stays.

    Whoever may not read it cannot delete it, either. A cluster that cannot be asked may have it.

    Parameters:
        kind: one without namespaces.
        uid: that of the state; empty where it holds none.
    """
    try:
        api = ClusterApi.at(address, urllib3.Retry(2, backoff_factor=0.5), TIMEOUT_S)
        return holds(api, kind, name, uid)
    except ApiException as error:
        return bool(error.status != FORBIDDEN)
    except (ConfigException, OSError, urllib3.exceptions.HTTPError):
        return True


def holds(api: ClusterApi, kind: Kind, name: str, uid: str, namespace: str = "") -> bool:
    """Whether the cluster has it. Raises ApiException and whatever else keeps it from being read.

    Parameters:
        uid: that of the state; empty where it holds none.
    """
    try:
        return uid in ("", api.get(kind, name, namespace)["metadata"]["uid"])
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
        return False
