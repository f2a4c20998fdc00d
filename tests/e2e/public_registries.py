"""Registries that stand for Docker Hub and ghcr.io: under their names, over TLS, with our own builds of what they hold.

Nobody can serve other bytes under a digest that is published. So a clone that names images by digest is to be pinned to
the digests of these ones.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.clusters.kind.component import REGISTRY_IMAGE
from infra.training_operator.patches import INIT_IMAGE
from infra.upstream import vendored
from tests.e2e.clones import PROJECT_LABEL
from tests.e2e.project import Project
from toolchain.images import base, cluster_images
from toolchain.machine.engine import Engine

HUB = "registry-1.docker.io"
NAMES = (HUB, "ghcr.io")
PORT = 443
NETWORKS = ipaddress.ip_network("10.232.0.0/16")
"""Its addresses mean nobody else to the machines that ask: engines take theirs elsewhere, `machines` in 10.231."""
NAMING = ("toolchain/images/cluster_images.py", "Dockerfile_training")
"""The files that name published images by digest."""

# kind applies the manifest of the pod network that the published node image brings; the network of ours is in
# containerd's configuration. Everybody's machines trust who signs for the public registries.
NODE = """\
ARG NODE
FROM ${NODE}
COPY default-cni.yaml /kind/manifests/
COPY certificate.pem /tmp/
RUN cat /tmp/certificate.pem >> /etc/ssl/certs/ca-certificates.crt
"""
NETWORK = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "pod-network", "namespace": "kube-system"},
    "data": {"where": "/etc/containerd/cni.template.json on each node"},
}


@dataclass(frozen=True)
class Registries:
    """`address` answers for NAMES with `certificate`; `digests` has those of the published names it holds."""

    address: str
    certificate: str
    digests: Mapping[str, str]

    def pin(self, project: Project) -> None:
        """Have a clone name these images where it names published ones by digest, in a commit."""
        for file in (project.root / name for name in NAMING):
            before = text = file.read_text()
            for name, digest in self.digests.items():
                published, _, by_digest = name.partition("@")
                text = text.replace(name, f"{published}@{digest}") if by_digest else text
            assert text != before, f"{file} names none of {list(self.digests)} by digest"
            file.write_text(text)
        project.commit("the images of this network")


@contextmanager
def standing(engine: Engine, folder: Path) -> Iterator[Registries]:
    """One registry in `engine` for both names, filled; it goes at the end.

    Parameters:
        folder: of a session's own, for the certificate and its key.
    """
    _make_certificate(folder)
    name = f"e2e-{uuid.uuid4().hex[:6]}-public"
    tls = {"CERTIFICATE": "/tls/certificate.pem", "KEY": "/tls/key.pem"}
    settings = {f"REGISTRY_HTTP_TLS_{key}": value for key, value in tls.items()}
    settings |= {"REGISTRY_HTTP_ADDR": f":{PORT}", "OTEL_TRACES_EXPORTER": "none"}
    with _network(engine, name):
        engine.output(
            *("run", "--detach", f"--name={name}", f"--label={PROJECT_LABEL}={folder}", f"--network={name}"),
            *(f"--volume={folder}:/tls:ro", f"--publish=127.0.0.1::{PORT}"),
            *(f"--env={key}={value}" for key, value in settings.items()),
            _own("REGISTRY_IMAGE"),
        )
        try:
            addresses = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
            address = engine.output("inspect", f"--format={addresses}", name)
            local = engine.output("port", name, f"{PORT}/tcp").split()[0]
            digests = {
                published: _push(engine, own, f"{local}/{repository(published)}")
                for published, own in _images(engine, folder).items()
            }
            yield Registries(address, (folder / "certificate.pem").read_text(), digests)
        finally:
            engine.output("rm", "--force", "--volumes", name)


@contextmanager
def _network(engine: Engine, name: str) -> Iterator[None]:
    subnet = ipaddress.ip_network((int(NETWORKS.network_address) + os.getpid() % 2**12 * 16, 28))
    engine.output("network", "create", f"--subnet={subnet}", name)
    try:
        yield
    finally:
        engine.output("network", "rm", name)


def repository(published: str) -> str:
    """Repository and tag of a published image within its registry: `busybox:1.37` -> `library/busybox:1.37`."""
    name = published.partition("@")[0]
    first, _, rest = name.partition("/")
    if not rest:
        return f"library/{name}"
    return rest if "." in first else name


def pulled_by_nodes() -> list[str]:
    """Those that the cluster's nodes pull themselves, by their full names."""
    return [f"docker.io/{repository(INIT_IMAGE)}", _operator()]


def _images(engine: Engine, folder: Path) -> dict[str, str]:
    """All that `make up` of stack `dev` pulls: the published name -> the image that stands for it."""
    return {
        cluster_images.PUBLISHED_NODE: _node(engine, folder),
        base.published("CPU_BASE"): _own("CPU_BASE"),
        REGISTRY_IMAGE: _own("REGISTRY_IMAGE"),
        INIT_IMAGE: _own("INIT_IMAGE"),
        _operator(): _own("OPERATOR_IMAGE"),
    }


def _own(name: str) -> str:
    variable = f"TRAINSTACK_{name}"
    assert variable in os.environ, f"{variable} is not set: published images are used here, and none is ours"
    return os.environ[variable]


def _operator() -> str:
    """As upstream's manifests name it."""
    (deployment,) = [each for each in vendored.objects("training-operator") if each["kind"] == "Deployment"]
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def _node(engine: Engine, folder: Path) -> str:
    context = folder / "node"
    context.mkdir()
    (context / "Dockerfile").write_text(NODE)
    (context / "default-cni.yaml").write_text(yaml.safe_dump(NETWORK))
    (context / "certificate.pem").write_text((folder / "certificate.pem").read_text())
    return engine.output("build", "--quiet", f"--build-arg=NODE={_own('NODE_IMAGE')}", str(context))


def _push(engine: Engine, image: str, target: str) -> str:
    """Push `image` as `target`; its digest there."""
    engine.output("tag", image, target)
    try:
        engine.output("push", "--quiet", target)
        digests = engine.output("inspect", '--format={{join .RepoDigests "\\n"}}', image).split()
        place = target.rpartition(":")[0]
        return next(each.partition("@")[2] for each in digests if each.startswith(f"{place}@"))
    finally:
        engine.output("rmi", target)


def _make_certificate(folder: Path) -> None:
    names = ",".join(f"DNS:{name}" for name in NAMES)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"),
            *("-days", "2", "-subj", "/CN=public registries", "-addext", f"subjectAltName={names}"),
            *("-keyout", folder / "key.pem", "-out", folder / "certificate.pem"),
        ],
        capture_output=True,
        check=True,
    )
