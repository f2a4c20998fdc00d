"""A backend and a passphrase of the user's own: used as they are, with nothing of ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.conftest import Machine
from toolchain import stack_files
from toolchain.operating import (
    backend,
    clean,
    environment,
    program_calls,
    pulumi_cli,
    setup,
    stack_locks,
    state,
    up,
    user_backend,
)
from toolchain.paths import PASSPHRASE, ROOT, STATE
from toolchain.steps import SetupError

BUCKET = "s3://bucket/trainstack?region=eu-central-1"
NAMES = (user_backend.BACKEND, user_backend.PHRASE, user_backend.PHRASE_FILE, user_backend.CLONE)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A shell that names no backend yet."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def child() -> dict[str, str]:
    """What a child of ours gets of the variables that matter here."""
    full = environment.for_child(environment.local({}))
    return {name: full[name] for name in NAMES if name in full}


def test_without_one_of_the_users_the_clones_own_is_used(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(user_backend.PHRASE, "x")
    assert user_backend.backend() is None
    assert child() == {
        user_backend.BACKEND: f"file://{STATE}?metadata=skip",
        user_backend.PHRASE_FILE: str(PASSPHRASE),
        user_backend.CLONE: str(ROOT),
    }


@pytest.mark.parametrize(
    "secret",
    [
        {user_backend.PHRASE: "mine"},
        {user_backend.PHRASE_FILE: "/secure/passphrase"},
        {user_backend.PHRASE: ""},
    ],
)
def test_the_users_own_reach_pulumi_unchanged(shell: pytest.MonkeyPatch, secret: dict[str, str]) -> None:
    theirs = {user_backend.BACKEND: BUCKET, **secret}
    for name, value in theirs.items():
        shell.setenv(name, value)
    assert child() == theirs
    assert all(name not in environment.exports(environment.local({})) for name in NAMES)


@pytest.mark.parametrize(
    ("theirs", "used"),
    [
        ("file:///shared/states", "file:///shared/states?metadata=skip"),
        ("file://~", "file://~?metadata=skip"),
        ("file:///states?no_tmp_dir=false", "file:///states?no_tmp_dir=false&metadata=skip"),
    ],
)
def test_pulumi_writes_no_second_file_into_a_folder(
    shell: pytest.MonkeyPatch, theirs: str, used: str
) -> None:
    """Two who work on one stack would read each other's half-written ones."""
    shell.setenv(user_backend.BACKEND, theirs)
    assert child() == {user_backend.BACKEND: used}
    shell.setenv(user_backend.BACKEND, used)
    assert child() == {user_backend.BACKEND: used}


def test_the_shell_of_another_clone_is_not_taken_for_the_users(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(user_backend.CLONE, "/elsewhere/clone")
    shell.setenv(user_backend.BACKEND, f"file:///elsewhere/clone/{STATE.relative_to(ROOT)}?metadata=skip")
    shell.setenv(user_backend.PHRASE_FILE, f"/elsewhere/clone/{PASSPHRASE.relative_to(ROOT)}")
    assert child()[user_backend.BACKEND] == f"file://{STATE}?metadata=skip"
    assert child()[user_backend.PHRASE_FILE] == str(PASSPHRASE)
    assert child()[user_backend.CLONE] == str(ROOT)


def test_our_passphrase_does_not_encrypt_what_the_users_backend_keeps(shell: pytest.MonkeyPatch) -> None:
    for name, value in environment.local({}).items():
        shell.setenv(name, value)  # `eval "$(make -s env)"`
    shell.setenv(user_backend.BACKEND, BUCKET)
    assert user_backend.PHRASE_FILE not in child()
    assert f"unset {user_backend.PHRASE_FILE}" in environment.exports(environment.local({}))
    with pytest.raises(SetupError, match=user_backend.PHRASE_FILE):
        user_backend.check("dev")


@pytest.mark.parametrize("url", ["s3://key:word@bucket", "file:///somewhere", "postgres://user:word@host/db"])
def test_a_backend_without_a_passphrase_is_refused_before_any_work(machine: Machine, url: str) -> None:
    for verb in ("up", "down"):
        done = machine.toolchain(verb, PULUMI_BACKEND_URL=url)
        assert done.returncode == 1
        assert "has no passphrase" in done.stderr
        assert f"export {user_backend.PHRASE_FILE}=" in done.stderr
        assert f"unset {user_backend.BACKEND}" in done.stderr
        assert "word" not in done.stderr, "a URL may hold a password"
    assert not (machine.root / ".trainstack").exists()


def test_a_service_needs_no_passphrase(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(user_backend.BACKEND, "https://api.pulumi.com")
    user_backend.check("dev")


def test_a_secrets_provider_of_the_stacks_own_needs_none(shell: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell.setattr(stack_files, "STACKS", tmp_path)
    shell.setenv(user_backend.BACKEND, BUCKET)
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("secretsprovider: awskms://alias/trainstack\nconfig: {}\n")
    user_backend.check("dev")
    file.write_text("secretsprovider: passphrase\nconfig: {}\n")
    with pytest.raises(SetupError):
        user_backend.check("dev")


@pytest.fixture
def ready(shell: pytest.MonkeyPatch) -> list[str]:
    """`up.prepare_stack` without a machine: notes what it does to the backend."""
    done: list[str] = []

    def note(what: str) -> dict[str, Any]:
        done.append(what)
        return {}

    shell.setattr(setup, "prepare", lambda stack, **how: {})
    shell.setattr(stack_locks, "release", lambda stack: done.append("release"))
    shell.setattr(backend, "prepare", lambda stack, variables: done.append("prepare"))
    shell.setattr(program_calls, "repair_cluster", lambda variables, stack: None)
    shell.setattr(state, "deployment", lambda stack: note("read"))
    shell.setattr(pulumi_cli, "_exported", lambda variables, stack: note("ask"))
    return done


def test_the_state_is_read_in_our_own_backend_only(ready: list[str], shell: pytest.MonkeyPatch) -> None:
    """Locks are waited for before the first look, and before what is pending counts as a killed run's."""
    up.prepare_stack("dev")
    assert ready == ["release", "prepare", "read", "release", "read"]
    ready.clear()
    shell.setenv(user_backend.BACKEND, BUCKET)
    up.prepare_stack("dev")
    assert ready == ["release", "prepare", "ask", "release", "ask"]


def test_clean_takes_down_what_is_in_our_own_backend(shell: pytest.MonkeyPatch) -> None:
    shell.setenv(user_backend.BACKEND, BUCKET)
    shell.setattr(state, "deployment", lambda stack: {"resources": [{}]})

    def down(stack: str, ensure_clean: object) -> None:
        raise SetupError(f"down in {user_backend.backend()}")

    shell.setattr(up, "down", down)
    with pytest.raises(SetupError, match="down in None"):
        clean.clean(lambda stack: None)
