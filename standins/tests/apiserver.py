"""A real kube-apiserver with its etcd, and the controllers where a test needs them, on loopback."""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

REQUIRED = ("etcd", "kube-apiserver")
# One line for each request of a ServiceAccount, when it is answered.
AUDIT: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, killed or not."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now; held open together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ApiServer:
    """Started by `start`, ended by `stop`; everything it writes is below its folder.

    Parameters:
        folder: an empty folder for certificates, data and logs.
        controllers: whether to run the kube-controller-manager too: garbage collection, namespaces, Deployments,
            Jobs, volume binding. Nothing schedules or runs pods: tests play kubelet where they need one.
    """

    def __init__(self, folder: Path, *, controllers: bool = False) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.kubeconfig = folder / "kubeconfig.yaml"
        self.audit = folder / "audit.jsonl"
        self.certificates = folder / "certificates"
        self._controllers = controllers
        self._processes: list[subprocess.Popen[bytes]] = []
        etcd, self._etcd_peer, self.port = free_ports(3)
        self._etcd = f"http://127.0.0.1:{etcd}"

    def start(self, seconds: float = 600.0) -> None:
        """Start everything and wait until the server is ready; stops again when that fails."""
        try:
            key = self.folder / "service-account.key"
            subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
            self._make_certificates()
            (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
            self._start_etcd()
            self.start_server()
            self._write_kubeconfig()
            self.wait_until_ready(time.monotonic() + seconds)
            if self._controllers:
                self._start_controllers(key)
        except BaseException:
            self.stop()
            raise

    def _make_certificates(self) -> None:
        """An authority for clients, and a certificate of an administrator."""
        authority, key = self.folder / "clients.crt", self.folder / "clients.key"
        made = ["-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2"]
        by_authority = ["-CA", authority, "-CAkey", key]
        admin = ["-keyout", self.folder / "admin.key", "-out", self.folder / "admin.crt"]
        for command in (
            [*made, "-subj", "/CN=clients", "-keyout", key, "-out", authority],
            [*made, "-subj", "/O=system:masters/CN=admin", *by_authority, *admin],
        ):
            subprocess.run(["openssl", "req", *map(str, command)], check=True, capture_output=True)

    def _start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{self._etcd_peer}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    def start_server(self) -> None:
        """Start the API server; after `stop_server` it comes back with the same data, port and token."""
        key = self.folder / "service-account.key"
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT))
        self._server = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            f"--cert-dir={self.certificates}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--client-ca-file={self.folder / 'clients.crt'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://localhost",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit}",
            "--profiling=false",
            "--v=0",
        )

    def stop_server(self) -> None:
        """End the API server alone, and at once, as a crash does."""
        self._processes.remove(self._server)
        self._server.kill()
        self._server.wait()

    def _start_controllers(self, key: Path) -> None:
        (port,) = free_ports(1)
        # The defaults of 20 requests a second are for clusters that live longer than a test.
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.certificates / 'apiserver.crt'}",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--leader-elect=false",
            # The test's node has no heartbeat.
            "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-cloud-node-lifecycle-controller",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            "--v=0",
        )

    def start_scheduler(self, program: str, *arguments: str) -> None:
        """Start a scheduler, kube-scheduler or one that is made of it, by the name that it has on PATH."""
        (port,) = free_ports(1)
        secure = ["--bind-address=127.0.0.1", f"--secure-port={port}", "--leader-elect=false"]
        self._run(program, *secure, *arguments)

    def start_controller(self, program: str, *arguments: str) -> None:
        """Start a controller by the name that it has on PATH; KUBECONFIG tells it where the server is."""
        self._run(program, *arguments)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{program}.log").open("ab")
        process = subprocess.Popen(
            [shutil.which(program) or program, *arguments],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            # A pytest that is killed runs no fixture's end.
            preexec_fn=_end_with_parent,
        )
        log.close()
        self._processes.append(process)
        return process

    def _write_kubeconfig(self) -> None:
        server = f"https://127.0.0.1:{self.port}"
        authority = str(self.folder / "certificates" / "apiserver.crt")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def wait_until_ready(self, until: float) -> None:
        """Wait until the API server answers that it is; raises RuntimeError with its log when it does not."""
        context = ssl._create_unverified_context()
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        while time.monotonic() < until:
            for process in self._processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args!r} ended: {self.logs()}")
            with suppress(OSError), urllib.request.urlopen(request, context=context, timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the API server did not become ready: {self.logs()}")

    def logs(self) -> str:
        """The last lines of every log, for the report of a failure."""
        tails = []
        for path in sorted(self.folder.glob("*.log")):
            tails.append(f"== {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-20:]))
        return "\n".join(tails)

    def stop(self) -> None:
        """End all processes, the youngest first."""
        for process in reversed(self._processes):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            # An API server that is asked nicely first waits for its watches to end.
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
