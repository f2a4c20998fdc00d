"""An image pushed to a registry that asks for a password, with the Docker configuration's credentials."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.audit import images
from infra.image.providers import RepositoryImageProvider
from infra.image.push import CredentialsError
from tests.e2e.waiting import wait_until

IMAGE = os.environ.get("TRAINSTACK_REGISTRY_IMAGE", "registry:3")
# bcrypt of "secret": the registry takes no other hash.
PASSWORDS = "trainer:$2b$10$o4xthhayrXhPxxZ6CjCqy.cpqClXdrFFJRv8e1tIMTanEmtYwlwFC\n"


def docker(*command: str) -> str:
    return subprocess.run(["docker", *command], check=True, capture_output=True, text=True).stdout.strip()


def answers(address: str) -> bool:
    """Docker forwards the port before the registry listens on it."""
    try:
        urllib.request.urlopen(f"http://{address}/v2/", timeout=30)
    except urllib.error.HTTPError:
        return True  # it asks for a password
    except OSError:
        return False
    raise AssertionError(f"the registry at {address} asks for no password")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """127.0.0.1:port of a registry that lets in nobody but trainer."""
    folder = tmp_path_factory.mktemp("auth")
    (folder / "htpasswd").write_text(PASSWORDS)
    name = f"e2e-{uuid.uuid4().hex[:6]}-registry"
    settings = ["REGISTRY_AUTH=htpasswd", "REGISTRY_AUTH_HTPASSWD_REALM=test"]
    settings += ["REGISTRY_AUTH_HTPASSWD_PATH=/auth/htpasswd", "OTEL_TRACES_EXPORTER=none"]
    environment = [part for setting in settings for part in ("--env", setting)]
    try:
        docker(
            "run",
            "--detach",
            "--name",
            name,
            "--volume",
            f"{folder}:/auth:ro",
            "--publish",
            "127.0.0.1::5000",
            *environment,
            IMAGE,
        )
        address = docker("port", name, "5000/tcp").split()[0]
        wait_until(f"the registry at {address} answers", lambda: answers(address))
        yield address
    finally:
        docker("rm", "--force", "--volumes", name)


def configured(folder: Path, registry: str, password: str) -> None:
    """Write a Docker configuration, as `docker login` does."""
    secret = base64.b64encode(f"trainer:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {registry: {"auth": secret}}}))


def pushed(registry: str, name: str) -> Any:
    """What pushing the image as `name`, with a tag, gave."""
    props = {"image": IMAGE, "repository": f"{registry}/trainstack/{name}", "tag": "abc"}
    return RepositoryImageProvider().create(props).outs or {}


def test_the_credentials_of_the_docker_configuration_are_used(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(tmp_path, registry, "secret")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    made = pushed(registry, "trainer")
    assert made["reference"] == f"{registry}/trainstack/trainer@{made['digest']}"
    docker("pull", "--quiet", made["reference"])


@pytest.mark.parametrize("password", ["wrong", None])
def test_without_them_the_error_says_how_to_log_in(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str | None
) -> None:
    if password:
        configured(tmp_path, registry, password)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(CredentialsError, match=f"fix: docker login {registry}"):
        pushed(registry, "trainer")


def test_a_base_that_its_tag_names_gets_the_digest_of_the_registry(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(tmp_path, registry, "secret")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    made = pushed(registry, "base")
    dockerfile = tmp_path / "Dockerfile_training"
    dockerfile.write_text(f"ARG CPU_BASE={registry}/trainstack/base:abc\nFROM ${{CPU_BASE}}\n")
    assert images.lock_all(tmp_path) == 0
    locked = f"{registry}/trainstack/base:abc@{made['digest']}"
    assert dockerfile.read_text() == f"ARG CPU_BASE={locked}\nFROM ${{CPU_BASE}}\n"
    docker("pull", "--quiet", locked)
