"""Plays Kubeflow Trainer and JobSet for an API server that has their definitions alone.

A webhook refuses a TrainJob whose TrainingRuntime is not there, as Trainer's does. The API server asks it in the cases
in which it asks the stack's. A TrainJob gets the batch/v1 Job that JobSet makes of its runtime, and its end.
Source: pkg/webhooks, pkg/runtime/core and pkg/controller of Kubeflow Trainer 2.3.0.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from infra.job.trainjob import jobs_of
from infra.objects.job_kinds import RUNTIME, TRAINJOB
from infra.objects.kinds import Kind
from infra.objects.manifest import Manifest
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import owned_by, play

RUNTIMES = Kind.of(RUNTIME, TRAINJOB.api_version)
NAME = "validator.trainjob.played"
REFUSAL = "specified trainingRuntime must be created before the TrainJob is created"
AT = "2026-01-01T00:00:00Z"


class PlayedTrainer:
    """Started by `start`, ended by `stop`.

    Parameters:
        folder: an empty folder for the webhook's certificate.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.custom, self.batch = client.CustomObjectsApi(connection), client.BatchV1Api(connection)
        self.admission = client.AdmissionregistrationV1Api(connection)
        self.certificate, self.key = folder / "webhook.crt", folder / "webhook.key"
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, controllers: list[Manifest]) -> None:
        """Make the webhook for TrainJobs that `controllers` have, with this process's address."""
        self._make_certificate()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        for target in (self._server.serve_forever, self._play):
            self._threads.append(threading.Thread(target=target, daemon=True))
            self._threads[-1].start()
        self.admission.create_validating_webhook_configuration(self._configuration(controllers))
        wait_until("the webhook is asked", self._is_asked)

    def stop(self) -> None:
        self.admission.delete_validating_webhook_configuration(NAME)
        self._stopped.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()

    def admits(self, trainjob: dict[str, Any]) -> bool:
        """Whether the runtime of a TrainJob is there."""
        try:
            self._get(RUNTIMES, trainjob["metadata"]["namespace"], trainjob["spec"]["runtimeRef"]["name"])
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    def _make_certificate(self) -> None:
        whose = ["-subj", "/CN=played trainer", "-addext", "subjectAltName=IP:127.0.0.1"]
        made = ["-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2", *whose]
        where = ["-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run(["openssl", "req", *made, *where], check=True, capture_output=True)

    def _configuration(self, controllers: list[Manifest]) -> Any:
        (hook,) = (
            hook
            for each in controllers
            if each["kind"] == "ValidatingWebhookConfiguration"
            for hook in each["webhooks"]
            if hook["rules"][0]["resources"] == [TRAINJOB.plural]
        )
        address = {
            "url": f"https://127.0.0.1:{self._server.server_port}/",
            "caBundle": base64.b64encode(self.certificate.read_bytes()).decode(),
        }
        return {"metadata": {"name": NAME}, "webhooks": [{**hook, "clientConfig": address}]}

    def _is_asked(self) -> bool:
        """Whether the API server has taken the webhook up."""
        spec = {"runtimeRef": {"apiGroup": TRAINJOB.group, "kind": RUNTIME, "name": "none"}}
        body = {
            "apiVersion": TRAINJOB.api_version,
            "kind": TRAINJOB.kind,
            "metadata": {"name": "tried", "namespace": "default"},
            "spec": spec,
        }
        place = (TRAINJOB.group, TRAINJOB.version, "default", TRAINJOB.plural)
        try:
            self.custom.create_namespaced_custom_object(*place, body, dry_run="All")
        except ApiException as error:
            return REFUSAL in str(error.body)
        return False

    def _play(self) -> None:
        play(self._stopped, lambda: self._listed(TRAINJOB), self._follow)

    def _follow(self, job: dict[str, Any]) -> None:
        if "deletionTimestamp" in job["metadata"] or job.get("status", {}).get("conditions"):
            return
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        runtime = self._get(RUNTIMES, namespace, job["spec"]["runtimeRef"]["name"])
        for wanted in jobs_of({**runtime, "metadata": {"name": name, "namespace": namespace}}):
            try:
                found: Any = self.batch.read_namespaced_job(wanted["metadata"]["name"], namespace)
            except ApiException as error:
                if error.status != 404:
                    raise
                wanted["metadata"]["ownerReferences"] = [owned_by(job)]
                self.batch.create_namespaced_job(namespace, wanted)  # type: ignore[arg-type]
                return
            if found.status.succeeded != wanted["spec"]["completions"]:
                return
        complete = {"type": "Complete", "status": "True", "reason": "JobsCompleted", "message": "played"}
        status = {"status": {"conditions": [{**complete, "lastTransitionTime": AT}]}}
        place = (TRAINJOB.group, TRAINJOB.version, namespace, TRAINJOB.plural, name)
        self.custom.patch_namespaced_custom_object_status(*place, status)

    def _listed(self, kind: Kind) -> list[dict[str, Any]]:
        listed: Any = self.custom.list_cluster_custom_object(kind.group, kind.version, kind.plural)
        return list(listed["items"])

    def _get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        found: Any = self.custom.get_namespaced_custom_object(
            kind.group, kind.version, namespace, kind.plural, name
        )
        return dict(found)


def _handler(trainer: PlayedTrainer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers an AdmissionReview."""

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = review["request"]
            allowed = trainer.admits(asked["object"])
            status = {} if allowed else {"status": {"message": REFUSAL}}
            answer = json.dumps(
                {**review, "response": {"uid": asked["uid"], "allowed": allowed, **status}}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler
