"""Flux's own kustomize-controller, as a program that applies the folder of a Git repository.

Its source is played: Flux's source-controller cannot be had here. The tests serve the archive of a commit, and write
what that controller would write into the status of the GitRepository.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from infra import paths
from tests.matrix.merged_folder import SHOWN, STACK, MergedFolder, block
from toolchain.tools import build

CONTROLLER = "github.com/fluxcd/kustomize-controller"
NAMESPACE = "flux-system"
SOURCES = {"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets"}
"""The kinds of sources that the controller watches -> their plurals."""
REQUESTED = "reconcile.fluxcd.io/requestedAt"
WAITS = ("DependencyNotReady", "Progressing", "ProgressingWithRetry")
"""Reasons of a Kustomization that is not ready yet and has not failed."""
RETRIED_S = 90.0
"""A Kustomization that has failed is tried again after the page's minute, and has ended by then."""
MODULE = "flux-applier"
SERVER = ("--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--requeue-dependency=1s")


def page() -> list[dict[str, Any]]:
    """The Kustomizations that docs/gitops.md shows, with the tests' stack in the place of the page's."""
    text = (paths.ROOT / "docs" / "gitops.md").read_text()
    (found,) = re.findall(r"^```yaml\n(apiVersion: kustomize.*?)^```", text, re.DOTALL | re.MULTILINE)
    return list(yaml.safe_load_all(found.replace("gpu", STACK)))


def definitions() -> list[dict[str, Any]]:
    """Of Kustomizations, upstream's; of sources without a schema."""
    files = build.source(MODULE, CONTROLLER, "config/crd/bases").glob("*.yaml")
    return [*(yaml.safe_load(file.read_text()) for file in files), *map(_source, SOURCES)]


def _source(kind: str) -> dict[str, Any]:
    group, plural = "source.toolkit.fluxcd.io", SOURCES[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class FluxFolder(MergedFolder):
    """Commits are archived, and applied by the controller, which runs until each Kustomization has been reconciled."""

    def apply(self) -> str:
        """Reconcile; what the Kustomizations say of it. One that fails has its next try."""
        found = self._reconciled(RETRIED_S)
        assert all(each["status"] == "True" for each in found.values()), found
        return str(found)

    def refused(self) -> str:
        """As `apply`, where one of them fails."""
        found = self._reconciled()
        assert any(each["status"] == "False" for each in found.values()), found
        return str(found)

    def delete(self) -> str:
        """Do what the page says to delete a stack; the controller prunes what the Kustomizations have applied."""
        with self._controller():
            return self.run(block("kubectl -n flux-system delete", {**SHOWN, "gpu": STACK}))

    def _reconciled(self, failing_s: float = 0.0) -> dict[str, dict[str, str]]:
        """The name of each Kustomization -> its condition Ready, for the last commit.

        Parameters:
            failing_s: for how long one may fail until that is its end.
        """
        definitions_file, objects = self.root.parent / "definitions.json", self.root.parent / "flux.json"
        definitions_file.write_text(_list(definitions()))
        self.run(f"kubectl apply --server-side -f {definitions_file}")
        self.run(f"kubectl wait --for=condition=Established --timeout=60s -f {definitions_file}")
        token = str(time.time_ns())
        asked = [
            {**each, "metadata": {**each["metadata"], "annotations": {REQUESTED: token}}} for each in page()
        ]
        source = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "trainstack", "namespace": NAMESPACE},
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with self._archive() as artifact:
            objects.write_text(_list([namespace, source]))
            self.run(f"kubectl apply --server-side -f {objects}")
            told = json.dumps({"status": {"artifact": artifact}})
            self.run(
                f"kubectl -n {NAMESPACE} patch gitrepository trainstack --subresource=status --type=merge -p '{told}'"
            )
            objects.write_text(_list(asked))
            self.run(f"kubectl apply --server-side -f {objects}")
            with self._controller() as log:
                names = {each["metadata"]["name"] for each in asked}
                return self._ended(names, token, artifact["revision"], log, failing_s)

    def _ended(
        self, names: set[str], token: str, revision: str, log: Path, failing_s: float
    ) -> dict[str, dict[str, str]]:
        """Wait until all are ready, or one has failed for `failing_s`."""
        end = time.monotonic() + self.patience_s
        well = time.monotonic()
        while True:
            answer = json.loads(
                self.run(f"kubectl -n {NAMESPACE} get kustomizations.kustomize.toolkit.fluxcd.io -o json")
            )
            found = {
                each["metadata"]["name"]: _ready(each, token, revision)
                for each in answer["items"]
                if each["metadata"]["name"] in names
            }
            failed = [
                each for each in found.values() if each["status"] == "False" and each["reason"] not in WAITS
            ]
            well = well if failed else time.monotonic()
            is_failed = bool(failed) and time.monotonic() - well >= failing_s
            if is_failed or all(each["status"] == "True" for each in found.values()):
                return found
            assert time.monotonic() < end, f"{found}\n{log.read_text()}"
            time.sleep(0.2)

    @contextmanager
    def _archive(self) -> Iterator[dict[str, Any]]:
        """Serve the last commit, as the status of its GitRepository tells of it."""
        served = self.root.parent / "served"
        served.mkdir(exist_ok=True)
        commit = self.run("git rev-parse HEAD").strip()
        file = served / f"{commit}.tar.gz"
        self.run(f"git archive --format=tar.gz --output={file} HEAD")
        handler = partial(_Quiet, directory=str(served))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield {
                "url": f"http://127.0.0.1:{server.server_address[1]}/{file.name}",
                "path": file.name,
                "revision": f"main@sha1:{commit}",
                "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
                "lastUpdateTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "size": file.stat().st_size,
            }
            server.shutdown()
            thread.join()

    @contextmanager
    def _controller(self) -> Iterator[Path]:
        """Run the controller; the file with its log."""
        program = build.build(MODULE) / "kustomize-controller"
        log = self.root.parent / "flux.log"
        with log.open("a") as written:
            running = subprocess.Popen(
                [program, *SERVER],
                cwd=self.root.parent,
                env={**self.environment, "RUNTIME_NAMESPACE": NAMESPACE, "TMPDIR": str(self.root.parent)},
                stdout=written,
                stderr=subprocess.STDOUT,
            )
            try:
                yield log
            finally:
                running.kill()
                running.wait()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def _list(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _ready(kustomization: dict[str, Any], token: str, revision: str) -> dict[str, str]:
    """Its condition Ready; one that is on its way where it tells of another commit or an earlier request."""
    status = kustomization.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    found: dict[str, str] = conditions.get("Ready") or {}
    is_new = status.get("lastHandledReconcileAt") == token
    is_new &= status.get("observedGeneration") == kustomization["metadata"]["generation"]
    is_new &= revision in (status.get("lastAttemptedRevision"), status.get("lastAppliedRevision"))
    return (
        found if found and is_new else {"status": "Unknown", "reason": "Progressing", "message": str(found)}
    )
