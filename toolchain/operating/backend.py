"""Pulumi's backend (by default files in the project folder), and the passphrase's salt, which must not reach Git."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain import git, stack_files
from toolchain.operating import user_backend
from toolchain.paths import LOCAL, LOGS, PASSPHRASE, ROOT, STATE
from toolchain.steps import SetupError, run

SALT = LOCAL / "salt"
FILTER = "trainstack-salt"
# Pulumi writes the salt of the clone's own passphrase into the stack file. This filter hides that line from Git. If the
# file also holds encrypted values, Git sees the line: without the salt, nobody could decrypt them.
CLEAN = """awk '{line[NR] = $0} /^ +secure:/ {keep = 1} \
END {for (i = 1; i <= NR; i++) if (keep || line[i] !~ /^encryptionsalt:/) print line[i]}'"""
_SALT_LINE = re.compile(r"^encryptionsalt:.*\n?", re.MULTILINE)


def prepare(stack: str, variables: Mapping[str, str]) -> None:
    """Create the missing parts of the backend, and select `stack`. Git sees no change.

    Our own backend gets its folder, a passphrase and a salt; the user's backend gets only the stack and its salt.
    """
    file = stack_files.file(stack)
    if not user_backend.backend():
        STATE.mkdir(parents=True, exist_ok=True)
        _passphrase()
    _hide_salt_from_git()
    _remove_other_salt(file)
    if not user_backend.backend() or user_backend.encrypts_with_passphrase(stack):
        _add_salt(file, variables)
    _pulumi(variables, ROOT, "stack", "select", "--create", "--non-interactive", stack)
    tell_git_of_new_size(file)


def _pulumi(variables: Mapping[str, str], folder: Path, *arguments: str) -> None:
    pulumi = shutil.which("pulumi", path=variables["PATH"]) or "pulumi"
    cmd: list[str | Path] = [pulumi, *arguments]
    run(cmd, log=LOGS / "pulumi.log", cwd=folder, env=variables, unset=user_backend.unwanted())


def _passphrase() -> None:
    if PASSPHRASE.exists():
        return
    # A salt belongs to its passphrase: a new passphrase makes every old salt useless.
    SALT.unlink(missing_ok=True)
    for stack in stack_files.names():
        without_salt(stack_files.file(stack))
    write_whole(PASSPHRASE, secrets.token_urlsafe(32) + "\n", mode=0o600)


def without_salt(file: Path) -> None:
    """Remove the salt from a stack file that holds no encrypted value."""
    text = file.read_bytes().decode()
    if _SALT_LINE.search(text) and "secure:" not in text:
        file.write_bytes(_SALT_LINE.sub("", text).encode())


def _remove_other_salt(file: Path) -> None:
    """Remove a salt of the backend that is not in use: our passphrase is for our backend, the user's for the user's."""
    found = _SALT_LINE.search(file.read_text())
    if not found:
        return
    ours = SALT.exists() and found[0].strip() == SALT.read_text().strip()
    if ours == bool(user_backend.backend()):
        without_salt(file)


def _add_salt(file: Path, variables: Mapping[str, str]) -> None:
    """Append the salt ourselves: Pulumi would also reformat the rest of the file."""
    text = file.read_bytes().decode()
    if _SALT_LINE.search(text):
        return
    if user_backend.backend():
        salt = _fresh_salt(variables)
    else:
        if not SALT.exists():
            write_whole(SALT, _fresh_salt(variables))
        salt = SALT.read_text()
    write_whole(file, text.rstrip("\r\n") + ("\r\n" if text.endswith("\r\n") else "\n") + salt)


def _fresh_salt(variables: Mapping[str, str]) -> str:
    """The line that Pulumi writes for the passphrase, taken from a temporary project."""
    with tempfile.TemporaryDirectory(prefix="trainstack-salt-") as name:
        place = Path(name)
        (place / "state").mkdir()
        (place / "Pulumi.yaml").write_text("name: salt\nruntime: python\n")
        apart = {**variables, "PULUMI_BACKEND_URL": f"file://{place / 'state'}"}
        _pulumi(apart, place, "stack", "init", "--non-interactive", "salt")
        made = place / "Pulumi.salt.yaml"
        found = _SALT_LINE.search(made.read_text()) if made.exists() else None
    if not found:
        raise SetupError("pulumi wrote no encryption salt", f"see {LOGS / 'pulumi.log'}")
    return found[0]


def _hide_salt_from_git() -> None:
    """Set the filter that .gitattributes names, only in this clone. A folder without git needs no filter."""
    if not _in_git():
        return
    for key, value in ((f"filter.{FILTER}.clean", CLEAN), (f"filter.{FILTER}.smudge", "cat")):
        if _git("config", "--local", "--get", key).rstrip("\n") != value:
            _git("config", "--local", key, value)


def tell_git_of_new_size(file: Path) -> None:
    """Record the file's size, with the salt in it, in git's index.

    Git takes a file of another size as changed, and does not call the filter. If the filtered content equals the
    index, `git add` records the size and stages nothing. A file with edits of the user stays unchanged in the index.
    """
    if not _in_git():
        return
    name = str(file.relative_to(ROOT))
    filtered = _git("hash-object", "--path", name, name).strip()
    if f" {filtered} 0\t" in _git("ls-files", "--stage", "--", name):
        _git("add", "--", name)


def _in_git() -> bool:
    return (ROOT / ".git").exists() and shutil.which("git") is not None


def _git(*arguments: str) -> str:
    return git.run(ROOT, *arguments).stdout


def forget_filter() -> None:
    """Remove our filter from the clone's configuration."""
    if _in_git():
        _git("config", "--local", "--remove-section", f"filter.{FILTER}")
