"""Plays the training-operator for an API server that has none: pods as the operator makes them, then success.

It plays Kueue, too: a job that it finds suspended in a queue is admitted.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from infra.config.job import QUEUE_LABEL

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "pytorchjobs"
LABEL = "training.kubeflow.org/job-name"
PAUSE_S = 0.2
REFUSED = (403, 422)
UNANSWERED = (ApiException, urllib3.exceptions.HTTPError)
# A job with this label is the test's own to play.
BY_HAND = "test/by-hand"

CRD = yaml.safe_load(f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {PLURAL}.{GROUP}}}
spec:
  group: {GROUP}
  scope: Namespaced
  names: {{kind: PyTorchJob, plural: {PLURAL}, singular: pytorchjob}}
  versions:
  - name: {VERSION}
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
""")


# Stands for an operator with a gang scheduler; its pods are played here.
OPERATOR: Any = yaml.safe_load("""
metadata: {name: operator, labels: {control-plane: kubeflow-training-operator}}
spec:
  replicas: 0
  selector: {matchLabels: {name: operator}}
  template:
    metadata: {labels: {name: operator}}
    spec: {containers: [{name: operator, image: operator, args: [--gang-scheduler-name=volcano]}]}
""")


def play(
    stopped: threading.Event,
    listed: Callable[[], list[dict[str, Any]]],
    look_after: Callable[[dict[str, Any]], object],
) -> None:
    """Look after each job that is listed, again and again. One that fails holds up no other, whatever its error is.

    An error that is none of the API server's is a mistake of the tests: it is printed.
    """
    while not stopped.wait(PAUSE_S):
        jobs: list[dict[str, Any]] = []
        with suppress(*UNANSWERED):
            jobs = listed()
        for job in jobs:
            try:
                look_after(job)
            except UNANSWERED:
                continue
            except Exception:
                traceback.print_exc()


def waits(job: dict[str, Any]) -> bool:
    """Whether the operator has something to do: the job is new, or was suspended and no longer is."""
    metadata = job["metadata"]
    if "deletionTimestamp" in metadata or BY_HAND in (metadata.get("labels") or {}):
        return False
    is_resumed = _condition(job) == "Suspended" and not job["spec"]["runPolicy"].get("suspend")
    return "status" not in job or is_resumed


def is_queued(job: dict[str, Any]) -> bool:
    """Whether the job is in a queue of Kueue's and suspended."""
    labels = job["metadata"].get("labels") or {}
    return QUEUE_LABEL in labels and BY_HAND not in labels and _condition(job) == "Suspended"


def is_over(job: dict[str, Any], now: float) -> bool:
    """Whether the job has ended, and stayed as long after that as it is to."""
    seconds = job["spec"]["runPolicy"].get("ttlSecondsAfterFinished")
    end = job.get("status", {}).get("completionTime")
    if seconds is None or not end or "deletionTimestamp" in job["metadata"]:
        return False
    return bool(datetime.fromisoformat(end).timestamp() + seconds < now)


def _condition(job: dict[str, Any]) -> str:
    held = job.get("status", {}).get("conditions") or [{"type": ""}]
    return str(held[-1]["type"])


def end_by_hand(jobs: client.CustomObjectsApi, namespace: str, name: str, condition: str) -> None:
    """Give a job with the label BY_HAND its last condition: Succeeded or Failed."""
    status = {"status": {"conditions": [{"type": condition, "status": "True", "message": "played"}]}}
    jobs.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, status)


class PlayedOperator:
    """Gives each new PyTorchJob a pod per replica and, unless it is suspended, the condition Succeeded.

    A pod that the API server refuses fails the job: the real operator would try again for ever. The kubelet of the
    stand-ins' tests, which the API server's fixture starts, ends the pods. A job that has ended is deleted after its
    ttlSecondsAfterFinished (CleanupJob in pkg/controller.v1/common/job.go of training-operator 1.9.3).

    Attributes:
        ahead_s: by how much the operator's clock goes ahead, in seconds.
    """

    ahead_s = 0.0

    def __init__(self, kubeconfig: Path) -> None:
        connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.core = client.CoreV1Api(connection)
        self.extensions = client.ApiextensionsV1Api(connection)
        self._apps = client.AppsV1Api(connection)
        self.jobs = client.CustomObjectsApi(connection)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        self.install()
        self._thread.start()

    def install(self) -> None:
        """Make the definition of the jobs, and what a stack takes for an operator that is there."""
        self.extensions.create_custom_resource_definition(CRD)
        self._apps.create_namespaced_deployment("default", OPERATOR)

    def uninstall(self) -> None:
        """Take both away; jobs are played as before where somebody else defines them. Nobody may have one."""
        self._apps.delete_namespaced_deployment(OPERATOR["metadata"]["name"], "default")
        self.extensions.delete_custom_resource_definition(CRD["metadata"]["name"])

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _play(self) -> None:
        def listed() -> list[dict[str, Any]]:
            found: Any = self.jobs.list_cluster_custom_object(GROUP, VERSION, PLURAL)
            return list(found["items"])

        play(self._stopped, listed, self._look_after)

    def _look_after(self, job: dict[str, Any]) -> None:
        if waits(job):
            self._run(job)
        elif is_over(job, time.time() + self.ahead_s):
            metadata = job["metadata"]
            self.jobs.delete_namespaced_custom_object(
                GROUP, VERSION, metadata["namespace"], PLURAL, metadata["name"]
            )
        elif is_queued(job):
            self._patch(job, {"spec": {"runPolicy": {"suspend": False}}})

    def _run(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        suspended = job["spec"]["runPolicy"].get("suspend")
        state, message = "Suspended" if suspended else "Succeeded", "played"
        for kind, replica in job["spec"]["pytorchReplicaSpecs"].items():
            for number in range(0 if suspended else replica["replicas"]):
                pod = f"{name}-{kind.lower()}-{number}"
                if self._has(job, pod):
                    continue  # an earlier try was ended behind it, by a quota that was just changing or a busy server
                try:
                    self._create_pod(job, pod, replica["template"])
                except ApiException as error:
                    if error.status not in REFUSED:
                        raise
                    state, message = "Failed", str(error.body)
        condition = {"type": state, "status": "True", "message": message}
        end = {} if suspended else {"completionTime": datetime.now(UTC).isoformat()}
        self.jobs.patch_namespaced_custom_object_status(
            GROUP,
            VERSION,
            job["metadata"]["namespace"],
            PLURAL,
            name,
            {"status": {"conditions": [condition], **end}},
        )

    def _has(self, job: dict[str, Any], name: str) -> bool:
        try:
            pod: Any = self.core.read_namespaced_pod(name, job["metadata"]["namespace"])
        except ApiException as error:
            if error.status == 404:
                return False
            raise
        owners = pod.metadata.owner_references or []
        return any(owner.uid == job["metadata"]["uid"] for owner in owners)

    def _patch(self, job: dict[str, Any], patch: dict[str, Any]) -> None:
        place = (GROUP, VERSION, job["metadata"]["namespace"], PLURAL, job["metadata"]["name"])
        self.jobs.patch_namespaced_custom_object(*place, patch, field_manager="kueue")

    def _create_pod(self, job: dict[str, Any], name: str, template: dict[str, Any]) -> None:
        metadata = {
            "name": name,
            "labels": {**template["metadata"]["labels"], LABEL: job["metadata"]["name"]},
            "annotations": {"test/outcome": "succeed"},
            "ownerReferences": [owned_by(job)],
        }
        spec = {**template["spec"], "restartPolicy": "Never"}
        pod: Any = {"metadata": metadata, "spec": spec}  # the client sends mappings as they are
        self.core.create_namespaced_pod(job["metadata"]["namespace"], pod)


def owned_by(job: dict[str, Any]) -> dict[str, Any]:
    """The owner reference of what is made for `job`."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
