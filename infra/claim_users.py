"""Refuses a change that has to delete a claim which pods of others mount: the deletion would wait for them in vain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import volumes
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import CLAIM, POD, VOLUME
from infra.objects.labels import MANAGED_BY
from infra.objects.mounts import pods_with_claim
from storage.manifests import Manifest, Volume, persistent_volume, persistent_volume_claim

TIMEOUT_S = 3
# Fields of a bound volume or claim that Kubernetes lets a client change; any other change replaces both.
CHANGEABLE = {"capacity", "persistentVolumeReclaimPolicy", "claimRef"}


def ensure_replaceable(stack: Stack, address: ApiAddress) -> None:
    """Raises ConfigError where volume objects must be replaced while somebody else's pods mount the claim.

    A cluster that is missing or does not answer is not asked: the update itself waits for it.
    """
    if address.kubeconfig and not Path(address.kubeconfig).exists():
        return
    try:
        api = ClusterApi.at(address, urllib3.Retry(0), TIMEOUT_S)
        for volume in volumes.own_volumes(stack):
            users = foreign_pods(_pods(api, volume)) if _is_replaced(api, volume) else []
            if users:
                raise ConfigError(_refusal(stack, volume, users))
    except (ApiException, ConfigException, OSError, urllib3.exceptions.HTTPError):
        return


def _refusal(stack: Stack, volume: Volume, users: list[str]) -> str:
    namespace, names = volume.namespace, ", ".join(users)
    allowed = f"a change that keeps claim {volume.claim}, as long as pods of others mount it: {names}"
    fix = f"end them (kubectl --namespace {namespace} delete pod {' '.join(users)}), or take the change back"
    return paragraph(stack.file, "trainstack:storage", "(changed)", allowed, fix)


def foreign_pods(pods: Iterable[Manifest]) -> list[str]:
    """Names of the pods that no job or resource of ours takes with it when it is deleted."""
    ours = MANAGED_BY.items()
    return [
        each["metadata"]["name"]
        for each in pods
        if not ours <= (each["metadata"].get("labels") or {}).items()
    ]


def differs(wanted: Any, live: Any) -> bool:
    """Whether a field of `wanted` is missing or different in `live`; fields that the server filled in do not count."""
    if isinstance(wanted, dict):
        return not isinstance(live, dict) or any(differs(wanted[key], live.get(key)) for key in wanted)
    return bool(wanted != live)


def _is_replaced(api: ClusterApi, volume: Volume) -> bool:
    try:
        there = api.get(VOLUME, volume.name)["spec"]
        claimed = api.get(CLAIM, volume.claim, volume.namespace)["spec"]
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    fixed = persistent_volume(volume)["spec"].items()
    wanted = {key: value for key, value in fixed if key not in CHANGEABLE}
    unpinned = "nodeAffinity" in there and volume.node is None
    return unpinned or differs(wanted, there) or differs(persistent_volume_claim(volume)["spec"], claimed)


def _pods(api: ClusterApi, volume: Volume) -> list[Manifest]:
    return pods_with_claim(volume.claim, api.listed(POD, volume.namespace))
