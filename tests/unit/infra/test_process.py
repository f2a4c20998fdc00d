"""Commands and pipes of the dynamic resources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from urllib3.exceptions import InsecureRequestWarning

from infra import agreed, process
from infra.objects.api import ApiAddress, api_client
from tests.unit.infra.samples import kubeconfig

ENDLESS = ["yes"]


@pytest.mark.parametrize("name", agreed.ASTRAY)
def test_no_command_gets_what_leads_docker_or_kind_astray(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KEPT", "x")
    said = process.output("env").splitlines()
    assert "KEPT=x" in said
    assert f"{name}=x" not in said
    process.pipe(["sh", "-c", f'echo "${name}"'], ["sh", "-c", f'read said; test -z "$said${name}"'])


@pytest.mark.parametrize("name", agreed.KUBECTL)
def test_kubectl_gets_what_it_needs_unless_the_user_says_something_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    assert f"{name}={agreed.KUBECTL[name]}" in process.output("env").splitlines()
    monkeypatch.setenv(name, "theirs")
    assert f"{name}=theirs" in process.output("env").splitlines()


def test_a_pipe_moves_all_of_it() -> None:
    process.pipe(["seq", "100000"], ["sh", "-c", "test $(wc -l) = 100000"])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (ENDLESS, ["sh", "-c", "head -c 1 >/dev/null; echo full >&2; exit 3"], "(?s)`sh .*code 3.*full"),
        (["sh", "-c", "echo no such image >&2; exit 1"], ["cat"], "(?s)code 1.*no such image"),
        (ENDLESS, ["no-such-program"], "no-such-program is not on PATH"),
        (["no-such-program"], ["cat"], "no-such-program is not on PATH"),
    ],
)
def test_a_broken_pipe_ends_with_its_cause(source: list[str], target: list[str], message: str) -> None:
    """In a process of its own: one that keeps the read end open waits for its endless writer for ever."""
    code = f"from infra import process; process.pipe({source!r}, {target!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    with pytest.raises(process.CommandError, match=message):
        raise process.CommandError(done.stderr)


def test_a_kubeconfigs_program_is_found_on_the_path_of_the_stack(tmp_path: Path) -> None:
    """kubectl of ours, for example, where the user has none; os.environ is as before."""
    (tmp_path / "login").write_text(
        '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",\'\n'
        'echo \'"status": {"token": "of-the-stack"}}\'\n'
    )
    (tmp_path / "login").chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}
    (tmp_path / "config").write_text(json.dumps(kubeconfig("https://c", user={"exec": plugin})))
    before = dict(os.environ)
    with process.given({"PATH": f"{tmp_path}:/bin:/usr/bin"}):
        found = api_client(ApiAddress(str(tmp_path / "config")))
    assert found.configuration.api_key["BearerToken"] == "Bearer of-the-stack"
    assert dict(os.environ) == before


@pytest.mark.parametrize("insecure", [True, False])
def test_what_the_kubeconfig_says_of_certificates_is_no_news(tmp_path: Path, insecure: bool) -> None:
    written = kubeconfig("https://c", {"insecure-skip-tls-verify": insecure})
    (tmp_path / "config").write_text(json.dumps(written))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        api_client(ApiAddress(str(tmp_path / "config")))
        warnings.warn("unverified", InsecureRequestWarning, stacklevel=1)
    assert bool(told) is not insecure
