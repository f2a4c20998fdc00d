"""What of a user's kubeconfig a stack takes: the one context that it uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.clusters.existing import one_context
from infra.config import ConfigError

CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "work",
    "preferences": {"note": "planted"},
    "contexts": [
        {"name": "work", "context": {"cluster": "a", "user": "me", "namespace": "team"}},
        {"name": "home", "context": {"cluster": "b", "user": "planted"}},
    ],
    "clusters": [
        {"name": "a", "cluster": {"server": "https://a", "certificate-authority": "ca.crt"}},
        {"name": "b", "cluster": {"server": "https://planted"}},
    ],
    "users": [
        {"name": "me", "user": {"client-certificate": "/keys/me.crt", "client-key": "me.key"}},
        {"name": "planted", "user": {"token": "planted"}},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONFIG))
    return path


def test_the_current_context_is_taken_and_nothing_else(file: Path) -> None:
    text = one_context.text(file, None)
    assert "planted" not in text
    found = yaml.safe_load(text)
    assert found["contexts"] == CONFIG["contexts"][:1]
    assert found["current-context"] == "work"


def test_relative_paths_count_from_the_files_folder(file: Path) -> None:
    found = yaml.safe_load(one_context.text(file, None))
    assert found["clusters"][0]["cluster"]["certificate-authority"] == str(file.parent / "ca.crt")
    assert found["users"][0]["user"] == {
        "client-certificate": "/keys/me.crt",
        "client-key": str(file.parent / "me.key"),
    }


@pytest.mark.parametrize(("command", "wanted"), [("aws", "aws"), ("./bin/login", "{}/bin/login")])
def test_a_login_program_beside_the_file_is_found(file: Path, command: str, wanted: str) -> None:
    users = [{"name": "me", "user": {"exec": {"command": command, "args": ["token"]}}}]
    found = one_context.reduced({**CONFIG, "users": users}, None, file.parent)
    login = found["users"][0]["user"]["exec"]
    assert login == {"command": wanted.format(file.parent), "args": ["token"]}


def test_another_context_may_be_named(file: Path) -> None:
    found = yaml.safe_load(one_context.text(file, "home"))
    assert [each["name"] for each in found["clusters"] + found["users"]] == ["b", "planted"]
    assert found["current-context"] == "home"


@pytest.mark.parametrize("missing", ["current-context", "contexts", "clusters", "users"])
def test_what_is_missing_stays_missing(missing: str) -> None:
    partial = {key: value for key, value in CONFIG.items() if key != missing}
    found = one_context.reduced(partial, None, Path("/"))
    assert not found[missing]
    assert "planted" not in str(found)


@pytest.mark.parametrize(
    "wrong", ["[", "planted", "[planted]", "contexts: planted", "users: [planted]", "users: [{}]"]
)
def test_what_is_no_kubeconfig_is_refused_and_not_shown(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "config"
    path.write_text(wrong)
    with pytest.raises(ConfigError, match="is not a kubeconfig") as refused:
        one_context.text(path, None)
    assert "planted" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        one_context.text(tmp_path, None)
