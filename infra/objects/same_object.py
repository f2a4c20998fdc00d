"""Whether a cluster has the very object that a stack's state holds, and not just one of its name."""

from __future__ import annotations

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import Kind

TIMEOUT_S = 5
ABSENT = (403, 404)


def is_there(address: ApiAddress, kind: Kind, name: str, uid: str) -> bool:
    """Whether it may be there: in another cluster, an object of the same name stays.

    Whoever may not read it cannot delete it, either. A cluster that cannot be asked may have it.

    Parameters:
        kind: one without namespaces.
        uid: that of the state; empty where it holds none.
    """
    try:
        api = ClusterApi.at(address, urllib3.Retry(2, backoff_factor=0.5), TIMEOUT_S)
        found = api.get(kind, name)
    except ApiException as error:
        return error.status not in ABSENT
    except (ConfigException, OSError, urllib3.exceptions.HTTPError):
        return True
    return not uid or bool(found["metadata"]["uid"] == uid)
