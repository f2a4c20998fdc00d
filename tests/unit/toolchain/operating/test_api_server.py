"""A server that does not answer is waited for, and a definition that it does not serve yet; nothing is changed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.unit.conftest import Fake
from toolchain.operating import api_server
from toolchain.operating.state import Access
from toolchain.steps import SetupError

ACCESS = Access("/somewhere/kubeconfig.yaml", "a-context")
PROBLEMS = [
    "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
    "Unable to connect to the server: read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer",
    "Unable to connect to the server: EOF",
    "Unable to connect to the server: net/http: TLS handshake timeout",
    "Unable to connect to the server: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
    "Unable to connect to the server: tls: failed to verify certificate: x509: unknown authority",
    "Error from server (InternalError): an error on the server has prevented the request from succeeding",
    "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
    "error: stat /somewhere/kubeconfig.yaml: no such file or directory",
]


FORBIDDEN = 'Error from server (Forbidden): forbidden: User "somebody" cannot get path "/readyz"'


def variables() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize("said", [*PROBLEMS, FORBIDDEN])
def test_any_problem_is_waited_out_and_told(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    seen = tmp_path / "seen"
    fake(
        "kubectl",
        f"if [ -e {seen} ]; then echo ok; else touch {seen}; echo {shlex.quote(said)} >&2; exit 1; fi",
    )
    api_server.wait(variables(), ACCESS, patience=60)
    assert said in capsys.readouterr().err


def test_the_same_problem_of_another_connection_is_told_once(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = tmp_path / "seen"
    reset = "read tcp 127.0.0.1:4000$n->127.0.0.1:6443: read: connection reset by peer"
    fake(
        "kubectl",
        f'n=$(cat {seen}); echo "1$n" > {seen}; [ "$n" = 111 ] || {{ echo "{reset}" >&2; exit 1; }}; echo ok',
    )
    seen.touch()
    api_server.wait(variables(), ACCESS, patience=60)
    assert capsys.readouterr().err.count("   waiting for the API server: read tcp") == 1


def test_problems_that_take_turns_are_told_once_each(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of a server that begins to listen, and ends again."""
    seen = tmp_path / "seen"
    fake(
        "kubectl",
        f'n=$(cat {seen}); echo "1$n" > {seen}; case $n in 111111) echo ok;; "" | 11 | 1111) echo EOF >&2; exit 1;; '
        "*) echo refused >&2; exit 1;; esac",
    )
    seen.touch()
    api_server.wait(variables(), ACCESS, patience=60)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("   waiting")]
    assert said == ["   waiting for the API server: EOF", "   waiting for the API server: refused"]


@pytest.mark.parametrize("said", PROBLEMS)
def test_a_server_that_never_answers_is_an_error_that_changes_nothing(fake: Fake, said: str) -> None:
    fake("kubectl", f'echo "{said}" >&2; exit 1')
    with pytest.raises(SetupError, match="nothing was changed") as refused:
        api_server.wait(variables(), ACCESS, patience=0.05)
    assert said in str(refused.value)


@pytest.mark.parametrize("page", ["<html>log in</html>", ""])
def test_whoever_else_answers_is_not_the_server(fake: Fake, page: str) -> None:
    fake("kubectl", f"echo '{page}'")
    assert "does not say ok" in str(api_server.problem(variables(), ACCESS))


def test_a_server_that_does_not_know_this_user_answers(fake: Fake) -> None:
    fake("kubectl", "echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1")
    assert api_server.problem(variables(), ACCESS) is None


def test_a_server_that_goes_on_refusing_this_user_is_there(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "STARTING_S", 0.05)
    fake("kubectl", f"echo '{FORBIDDEN}' >&2; exit 1")
    api_server.wait(variables(), ACCESS, patience=60)


def test_the_right_server_is_asked(fake: Fake, tmp_path: Path) -> None:
    fake("kubectl", f'echo "$@" > {tmp_path}/asked; echo ok')
    api_server.wait(variables(), ACCESS)
    asked = (tmp_path / "asked").read_text()
    assert "--kubeconfig /somewhere/kubeconfig.yaml" in asked
    assert "--context a-context" in asked


@pytest.mark.parametrize("status", [0, 1])
def test_a_kubeconfig_that_was_moved_names_no_server(fake: Fake, tmp_path: Path, status: int) -> None:
    words = tmp_path / "words"
    fake("kubectl", f'echo "$@" > {words}; exit {status}')
    assert api_server.is_named(variables(), ACCESS) is not bool(status)
    assert words.read_text().endswith("--context a-context config view --minify -o name\n")


NAME = "pytorchjobs.kubeflow.org"
UNKNOWN = "error: the server doesn't have a resource type"
# kubectl of a server that holds the definition, and serves what it defines once the file is there.
HOLDS = """
case "$*" in
*customresourcedefinitions*) echo customresourcedefinition/pytorchjobs.kubeflow.org ;;
*) [ -e {served} ] || {{ touch {asked}; echo "{unknown}" >&2; exit 1; }} ;;
esac
"""
NOTHING = {
    "served": HOLDS.format(served="/", asked="/dev/null", unknown=""),
    "gone": f'case "$*" in *customresourcedefinitions*) ;; *) echo "{UNKNOWN}" >&2; exit 1 ;; esac',
    "no answer": 'echo "Unable to connect to the server: EOF" >&2; exit 1',
    "no right": 'echo "Error from server (Forbidden): forbidden" >&2; exit 1',
}


def deployment(**outputs: Any) -> dict[str, Any]:
    return {
        "resources": [
            {"type": "pulumi:providers:kubernetes", "inputs": {"kubeconfigPath": "/somewhere"}},
            {"type": api_server.DEFINITION, **outputs},
        ]
    }


MADE = deployment(outputs={"metadata": {"name": NAME}})
WITHOUT = {"empty": {}, "planned": deployment(), "pending": deployment(outputs={})}


def test_one_that_is_not_served_is_waited_for(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "asked"
    fake("kubectl", HOLDS.format(served=asked, asked=asked, unknown=UNKNOWN))
    assert api_server.wait_for_definitions(variables(), MADE)
    assert f"waiting for the API server to serve {NAME}" in capsys.readouterr().err


@pytest.mark.parametrize("script", NOTHING.values(), ids=NOTHING)
def test_with_nothing_to_wait_for_nothing_is_mended(fake: Fake, script: str) -> None:
    fake("kubectl", script)
    assert not api_server.wait_for_definitions(variables(), MADE)


@pytest.mark.parametrize("state", WITHOUT.values(), ids=WITHOUT)
def test_a_state_without_one_asks_nobody(fake: Fake, tmp_path: Path, state: dict[str, Any]) -> None:
    fake("kubectl", f"touch {tmp_path}/asked")
    assert not api_server.wait_for_definitions(variables(), state)
    assert not (tmp_path / "asked").exists()


def test_the_wait_ends(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "DEFINITIONS_PATIENCE_S", 0.05)
    fake("kubectl", HOLDS.format(served=tmp_path / "never", asked=tmp_path / "asked", unknown=UNKNOWN))
    assert not api_server.wait_for_definitions(variables(), MADE)
