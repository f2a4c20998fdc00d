"""A backend and a passphrase of the user's own: used as they are, with nothing of ours beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import Machine
from toolchain import backend, clean, environment, pulumi, recovery, setup, up, users
from toolchain.places import PASSPHRASE, ROOT
from toolchain.steps import SetupError

BUCKET = "s3://bucket/trainstack?region=eu-central-1"
NAMES = (users.BACKEND, users.PHRASE, users.PHRASE_FILE, users.CLONE)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A shell that names no backend yet."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def child() -> dict[str, str]:
    """What a child of ours gets of the variables that matter here."""
    full = environment.full(environment.local({}))
    return {name: full[name] for name in NAMES if name in full}


def test_without_one_of_the_users_the_clones_own_is_used(shell: pytest.MonkeyPatch) -> None:
    assert users.backend() is None
    assert child() == {
        users.BACKEND: f"file://{ROOT}/.trainstack/state?metadata=skip",
        users.PHRASE_FILE: str(PASSPHRASE),
        users.CLONE: str(ROOT),
    }


@pytest.mark.parametrize(
    "secret", [{users.PHRASE: "mine"}, {users.PHRASE_FILE: "/secure/passphrase"}, {users.PHRASE: ""}]
)
def test_the_users_own_reach_pulumi_unchanged(shell: pytest.MonkeyPatch, secret: dict[str, str]) -> None:
    theirs = {users.BACKEND: BUCKET, **secret}
    for name, value in theirs.items():
        shell.setenv(name, value)
    assert child() == theirs
    assert all(name not in environment.exports(environment.local({})) for name in NAMES)


def test_the_shell_of_another_clone_is_not_taken_for_the_users(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(users.CLONE, "/elsewhere/clone")
    shell.setenv(users.BACKEND, "file:///elsewhere/clone/.trainstack/state?metadata=skip")
    shell.setenv(users.PHRASE_FILE, "/elsewhere/clone/.trainstack/passphrase")
    assert child()[users.BACKEND] == f"file://{ROOT}/.trainstack/state?metadata=skip"
    assert child()[users.PHRASE_FILE] == str(PASSPHRASE)
    assert child()[users.CLONE] == str(ROOT)


def test_our_passphrase_does_not_encrypt_what_the_users_backend_keeps(shell: pytest.MonkeyPatch) -> None:
    for name, value in environment.local({}).items():
        shell.setenv(name, value)  # `eval "$(make -s env)"`
    shell.setenv(users.BACKEND, BUCKET)
    assert users.PHRASE_FILE not in child()
    assert f"unset {users.PHRASE_FILE}" in environment.exports(environment.local({}))
    with pytest.raises(SetupError, match=users.PHRASE_FILE):
        users.check("dev")


@pytest.mark.parametrize("url", ["s3://key:word@bucket", "file:///somewhere", "postgres://user:word@host/db"])
def test_a_backend_without_a_passphrase_is_refused_before_any_work(machine: Machine, url: str) -> None:
    for verb in ("up", "down"):
        done = machine.toolchain(verb, PULUMI_BACKEND_URL=url)
        assert done.returncode == 1
        assert "has no passphrase" in done.stderr
        assert f"export {users.PHRASE_FILE}=" in done.stderr
        assert f"unset {users.BACKEND}" in done.stderr
        assert "word" not in done.stderr, "a URL may hold a password"
    assert not (machine.root / ".trainstack").exists()


def test_a_service_needs_no_passphrase(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(users.BACKEND, "https://api.pulumi.com")
    users.check("dev")


def test_a_secrets_provider_of_the_stacks_own_needs_none(shell: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell.setattr(users, "STACKS", tmp_path)
    shell.setenv(users.BACKEND, BUCKET)
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("secretsprovider: awskms://alias/trainstack\nconfig: {}\n")
    users.check("dev")
    file.write_text("secretsprovider: passphrase\nconfig: {}\n")
    with pytest.raises(SetupError):
        users.check("dev")


@pytest.fixture
def ready(shell: pytest.MonkeyPatch) -> list[str]:
    """`up.ready` without a machine: notes what it does to the backend."""
    done: list[str] = []
    shell.setattr(setup, "prepare", lambda: {})
    shell.setattr(recovery, "release", lambda stack: done.append("release"))
    shell.setattr(backend, "prepare", lambda stack, variables: done.append("prepare"))
    shell.setattr(recovery, "deployment", lambda stack: done.append("read") or {})
    shell.setattr(pulumi, "deployment", lambda variables, stack: done.append("ask") or {})
    return done


def test_locks_are_removed_and_state_is_read_in_our_own_backend_only(
    ready: list[str], shell: pytest.MonkeyPatch
) -> None:
    up.ready("dev")
    assert ready == ["release", "prepare", "read"]
    ready.clear()
    shell.setenv(users.BACKEND, BUCKET)
    up.ready("dev")
    assert ready == ["prepare", "ask"]


def test_clean_takes_down_what_is_in_our_own_backend(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(users.BACKEND, BUCKET)
    shell.setattr(recovery, "deployment", lambda stack: {"resources": [{}]})

    def down(stack: str) -> None:
        raise SetupError(f"down in {users.backend()}")

    shell.setattr(up, "down", down)
    with pytest.raises(SetupError, match="down in None"):
        clean.clean()
