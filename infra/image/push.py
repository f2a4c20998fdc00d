"""Builds images and brings them into a registry, doing only what is missing."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from pathlib import Path

from infra import docker
from infra.clusters import registries
from infra.clusters.kind import login
from infra.image.docker_login import logged_in
from infra.process import CommandError, output

MANIFESTS = ", ".join(
    [
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.index.v1+json",
    ]
)
TIMEOUT_S = 10


def docker_build(
    folder: Path, dockerfile: Path, arguments: Mapping[str, str], image: str, *options: str
) -> None:
    """`docker build` of `folder` as `image`. Raises CommandError where it fails. `arguments`: name -> value."""
    given = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
    output("docker", "build", "--file", str(dockerfile), *options, *given, "--tag", image, str(folder))


def to_registry(image: str, name: str, repository: str, tag: str) -> str:
    """Push the engine's `image` to the kind registry `name` as `repository:tag`; layers that are there are not sent.

    Returns its digest, `sha256:...`, as the engine computed it: the registry's own answer about a tag is not trusted.
    Raises CommandError.
    """
    address = registries.address_for_host(name)
    place = f"{address}/{repository}"
    remote = f"{place}:{tag}"
    output("docker", "tag", image, remote)
    try:
        with logged_in(address, login.basic()) as variables:
            output("docker", "push", "--quiet", remote, env=variables)
        return _pushed_digest(remote, place)
    finally:
        # The port in this name is good for this registry container only.
        output("docker", "rmi", "--no-prune", remote)


def _pushed_digest(remote: str, repository: str) -> str:
    """What the engine says that it pushed as `remote`. Raises CommandError."""
    listed = output("docker", "image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', remote).split()
    for entry in listed:
        if entry.startswith(f"{repository}@"):
            return entry.partition("@")[2]
    raise CommandError(f"docker pushed {remote} and knows no digest of it")


def in_registry(name: str, repository: str, digest: str) -> bool:
    """Whether the kind registry `name` answers and has that image."""
    try:
        url = f"http://{registries.address_for_host(name)}/v2/{repository}/manifests/{digest}"
        headers = {"Accept": MANIFESTS, "Authorization": login.authorization()}
        request = urllib.request.Request(url, method="HEAD", headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except (CommandError, OSError):  # it is not there, does not answer, or lets nobody in
        return False


class CredentialsError(RuntimeError):
    """A registry refused the credentials of the Docker configuration, or there are none."""


REFUSALS = ("unauthorized", "denied", "no basic auth credentials", "authentication required")


def to_repository(image: str, repository: str, tag: str) -> str:
    """Push the engine's `image` as `repository:tag` with the credentials of the Docker configuration.

    Returns its digest, `sha256:...`. Raises CredentialsError, and CommandError for any other failure.
    """
    remote = f"{repository}:{tag}"
    output("docker", "tag", image, remote)
    try:
        output("docker", "push", "--quiet", remote)
    except CommandError as error:
        if not any(refusal in str(error) for refusal in REFUSALS):
            raise
        host = repository.partition("/")[0]
        raise CredentialsError(
            f"{error}\n  fix: docker login {host}, as somebody who may push there"
        ) from None
    return _pushed_digest(remote, repository)


def pull(node: str, reference: str) -> None:
    """Have a kind node's containerd fetch an image ahead of the kubelet. Raises CommandError."""
    command = ["ctr", "--namespace", "k8s.io", "images", "pull", "--hosts-dir", "/etc/containerd/certs.d"]
    docker.execute(node, *command, reference)
