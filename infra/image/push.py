"""Builds images and pushes them to a registry. It does only the missing steps."""

from __future__ import annotations

import json
import os
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infra import agreed, docker, paths
from infra.clusters import registries
from infra.clusters.kind import login
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
DOCKER_CONFIG_FILE = "config.json"
# Settings with programs that store a user's logins: docker would ask such a program instead of reading our file.
HELPERS = ("credsStore", "credHelpers")


def docker_build(
    folder: Path,
    dockerfile: Path,
    arguments: Mapping[str, str],
    image: str,
    *options: str,
    theirs: bool = False,
) -> None:
    """`docker build` of `folder` as `image`. Raises CommandError if it fails.

    Parameters:
        arguments: name -> value.
        theirs: whether the Dockerfile is the user's: it may need BuildKit.
    """
    given = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
    command = ("docker", "build", "--file", str(dockerfile), *options, *given, "--tag", image, str(folder))
    output(*command, env={} if theirs else {agreed.BUILDKIT: ""})  # for docker, an empty variable is unset


def to_registry(image: str, name: str, repository: str, tag: str) -> str:
    """Push the engine's `image` to the kind registry `name` as `repository:tag`. Existing layers are not sent again.

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
        # The port in this name is valid only for this registry container.
        output("docker", "rmi", "--no-prune", remote)


def _pushed_digest(remote: str, repository: str) -> str:
    """The digest, from the engine, of the image pushed as `remote`. Raises CommandError."""
    listed = output("docker", "image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', remote).split()
    for entry in listed:
        if entry.startswith(f"{repository}@"):
            return entry.partition("@")[2]
    raise CommandError(f"docker pushed {remote}, but knows no digest of it")


def in_registry(name: str, repository: str, digest: str) -> bool:
    """Whether the kind registry `name` answers and has that image."""
    try:
        url = f"http://{registries.address_for_host(name)}/v2/{repository}/manifests/{digest}"
        headers = {"Accept": MANIFESTS, "Authorization": login.authorization()}
        request = urllib.request.Request(url, method="HEAD", headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except (CommandError, OSError):  # it does not exist, does not answer, or refuses the login
        return False


class CredentialsError(RuntimeError):
    """A registry refused the credentials in the Docker configuration, or there are none."""


REFUSALS = ("unauthorized", "denied", "no basic auth credentials", "authentication required")


def to_repository(image: str, repository: str, tag: str) -> str:
    """Push the engine's `image` as `repository:tag` with the credentials in the Docker configuration.

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
        raise CredentialsError(f"{error}\n  fix: docker login {host}, as a user who may push there") from None
    return _pushed_digest(remote, repository)


def pull(node: str, reference: str) -> None:
    """Let a kind node's containerd pull an image before the kubelet needs it. Raises CommandError."""
    command = ["ctr", "--namespace", "k8s.io", "images", "pull", "--hosts-dir", "/etc/containerd/certs.d"]
    docker.execute(node, *command, reference)


@contextmanager
def logged_in(address: str, basic: str) -> Iterator[dict[str, str]]:
    """The variables with which `docker` logs in to only this registry.

    The user's own configuration stays unchanged. Its other settings count: proxies, contexts, certificates.

    Parameters:
        address: host:port of the registry.
        basic: user and password, encoded.
    """
    user = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    paths.STATE.mkdir(exist_ok=True)
    # Not in /tmp: a docker from a snap has its own /tmp.
    with tempfile.TemporaryDirectory(dir=paths.STATE, prefix=".docker-") as folder:
        settings = {
            name: value
            for name, value in agreed.mapping(user / DOCKER_CONFIG_FILE).items()
            if name not in HELPERS
        }
        place = Path(folder)
        (place / DOCKER_CONFIG_FILE).write_text(json.dumps({**settings, "auths": {address: {"auth": basic}}}))
        for other in user.iterdir() if user.is_dir() else ():
            if other.name != DOCKER_CONFIG_FILE:
                (place / other.name).symlink_to(other.absolute())
        yield {"DOCKER_CONFIG": folder}
