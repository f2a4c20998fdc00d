"""A cluster that a merged folder is applied to: what it holds of the stack, and when that has come to rest."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from infra.config.operator import OperatorApi
from infra.inspection import SETTLE_S
from infra.objects.job_kinds import JOBSET, PYTORCHJOB, RUNTIME, TRAINJOB
from infra.objects.kinds import Kind
from tests.matrix.judging import Objects, by_key
from tests.matrix.merged_folder import NAMESPACE, STACK

RUNTIMES = Kind.of(RUNTIME, TRAINJOB.api_version)
OF_JOBS = {OperatorApi.V1: (PYTORCHJOB,), OperatorApi.V2: (RUNTIMES, TRAINJOB, JOBSET)}
"""API -> the kinds of a job, of what it refers to, and of what owns its Jobs."""
ENDED = ("Succeeded", "Complete", "Completed")
"""Conditions of a PyTorchJob, of a TrainJob or Job, of a JobSet."""

KEPT = (
    f"PersistentVolume//trainstack-{STACK}-models",
    f"PersistentVolumeClaim/{NAMESPACE}/trainstack-{STACK}-models",
)
OURS = f"trainstack/stack={STACK}"


class Cluster:
    """What the API server holds of the tests' stack.

    Parameters:
        apis: those of which it has the definitions.
        patience_s: how long jobs, claims and deletions may take.
    """

    def __init__(self, kubeconfig: Path, *apis: OperatorApi, patience_s: float = SETTLE_S) -> None:
        self.kinds = [kind for api in apis for kind in OF_JOBS[api]]
        self.patience_s = patience_s
        self.connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.core, self.batch = client.CoreV1Api(self.connection), client.BatchV1Api(self.connection)
        self.custom = client.CustomObjectsApi(self.connection)

    def objects(self) -> Objects:
        """Kind/namespace/name -> each volume, claim, job with its runtime, Job and pod."""
        listed: dict[str, Any] = {
            "PersistentVolume": self.core.list_persistent_volume(),
            "PersistentVolumeClaim": self.core.list_namespaced_persistent_volume_claim(NAMESPACE),
            "Job": self.batch.list_namespaced_job(NAMESPACE),
            "Pod": self.core.list_namespaced_pod(NAMESPACE),
        }
        found = [
            {**self.connection.sanitize_for_serialization(each), "kind": kind}
            for kind, answer in listed.items()
            for each in answer.items
        ]
        for kind in self.kinds:
            answer: Any = self.custom.list_namespaced_custom_object(
                kind.group, kind.version, NAMESPACE, kind.plural
            )
            found += answer["items"]
        return by_key(found)

    def settled(self) -> Objects:
        """The objects when every job has ended, every claim is bound, nothing is about to go, and two looks agree."""
        end = time.monotonic() + self.patience_s
        before: Objects = {}
        found = self.objects()
        while (waits := unsettled(found)) or asked(found) != asked(before):
            assert time.monotonic() < end, waits or "what is asked for changes with each look"
            time.sleep(0.2)
            before, found = found, self.objects()
        return found

    def change(self, kind: Kind, name: str, spec: dict[str, Any]) -> None:
        """Somebody changes a job, or its runtime, by hand."""
        place = (kind.group, kind.version, NAMESPACE, kind.plural, name)
        self.custom.patch_namespaced_custom_object(*place, {"spec": spec})

    def clear(self) -> None:
        """Take away all that the tests have made, and wait until it is gone."""
        self.core.delete_namespace(NAMESPACE)
        self.core.delete_collection_persistent_volume(label_selector=OURS)
        end = time.monotonic() + self.patience_s
        while self._is_there():
            assert time.monotonic() < end, self.objects()
            time.sleep(0.2)

    def _is_there(self) -> bool:
        try:
            self.core.read_namespace(NAMESPACE)
        except ApiException as error:
            if error.status != 404:
                raise
            return bool(self.core.list_persistent_volume(label_selector=OURS).items)
        return True


def unsettled(found: Objects) -> list[str]:
    """What has not ended yet, is not bound yet, or goes soon because it is deleted or its owner is."""
    there = {each["metadata"]["uid"] for each in found.values()}
    return [
        key
        for key, each in found.items()
        if each["metadata"].get("deletionTimestamp")
        or not has_ended(each)
        or not {owner["uid"] for owner in each["metadata"].get("ownerReferences", [])} <= there
    ]


def has_ended(each: dict[str, Any]) -> bool:
    if each["kind"] == RUNTIME:
        return True
    status = each.get("status", {})
    if "phase" in status:
        return status["phase"] in ("Bound", "Succeeded")
    return any(condition["type"] in ENDED for condition in status.get("conditions", []))


def names(found: Objects, kind: str) -> list[str]:
    """Of the objects of this kind that somebody has applied, and of all pods."""
    return [
        each["metadata"]["name"]
        for each in found.values()
        if each["kind"] == kind and (kind == "Pod" or not each["metadata"].get("ownerReferences"))
    ]


def uids(found: Objects, *keys: str) -> list[str]:
    return [found[key]["metadata"]["uid"] for key in keys]


def asked(found: Objects) -> Objects:
    """The objects as somebody has asked for them, without what controllers tell of them later."""
    told = copy.deepcopy(found)
    for each in told.values():
        each.pop("status", None)
        for field in ("resourceVersion", "managedFields"):
            each["metadata"].pop(field, None)
    return told
