"""Errors as sentences for the user: another user's file, a full disk, a failed command."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import subprocess
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path

from toolchain.paths import MODELS, ROOT, cache
from toolchain.steps import SetupError

REFUSED = {errno.EACCES, errno.EPERM}
FULL = {errno.ENOSPC, errno.EDQUOT}


def sentence(error: Exception) -> SetupError:
    """The error for the user. The traceback of an unexpected error is written to a file, which the text names."""
    if isinstance(error, OSError):
        return _of_machine(error)
    if isinstance(error, subprocess.CalledProcessError):
        return SetupError(f"`{_shown(error.cmd)}` failed ({error.returncode}){_said(error)}")
    with tempfile.NamedTemporaryFile("w", prefix="trainstack-", suffix=".log", delete=False) as kept:
        kept.writelines(traceback.format_exception(error))
    text = str(error).strip() or "no message"
    return SetupError(
        f"unexpected error: {type(error).__name__}: {text}",
        f"report it and attach {kept.name}; then try again",
    )


def _of_machine(error: OSError) -> SetupError:
    file = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    what = f"{file}: {error.strerror}" if file else str(error)
    if error.errno in REFUSED and file:
        return others_file(file, what)
    if error.errno in FULL:
        return SetupError(
            what, "free some space on the disk of that file" if file else "free some space on this machine"
        )
    return SetupError(what)


def others_file(file: Path, what: str) -> SetupError:
    """An error for a file that this user may not use. It names the file's owner, and the command that gives access.

    Parameters:
        file: the file, which may not exist.
        what: the beginning of the sentence.
    """
    return SetupError(f"{what}{_owned_by(file)}", _access(file))


def _access(file: Path) -> str:
    """The command that gives this user access to `file`; empty if that would take `models/` away from the pods."""
    if file.is_relative_to(MODELS):
        return f"sudo chmod -R a+rX {shlex.quote(str(file))}"  # we only read there
    folder = _folder(file)
    if MODELS.is_relative_to(folder):
        return ""
    place = shlex.quote(str(folder))
    take_over = f"sudo chown -R {os.geteuid()}:{os.getegid()} {place}"
    ours = folder == cache() or folder.parent == ROOT
    return f"sudo mkdir -p {place} && {take_over}" if ours and not folder.exists() else take_over


def _folder(file: Path) -> Path:
    """Our folder that holds `file`: our cache, or a folder at the top of the clone; otherwise `file`."""
    if file.is_relative_to(cache()):
        return cache()
    if file.is_relative_to(ROOT) and file != ROOT:
        return ROOT / file.relative_to(ROOT).parts[0]
    return file


def _owned_by(file: Path) -> str:
    owner = _owner((file, *file.parents))
    if owner is None or owner == os.geteuid():
        return ""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"user {owner}"
    return f"; it belongs to {name}, whose earlier run may have left it"


def _owner(places: Iterable[Path]) -> int | None:
    for place in places:
        try:
            return place.stat().st_uid
        except OSError:
            continue
    return None


def _shown(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)


def _said(error: subprocess.CalledProcessError) -> str:
    said = error.stderr or error.stdout or ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return f": {text.strip()}" if text.strip() else ""
