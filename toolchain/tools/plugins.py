"""Pulumi's language host and kubernetes plugin: Pulumi's own where they can be downloaded, else our stand-ins.

Pulumi prefers what it finds on PATH to its own plugin cache: so a shell gets only those stand-ins on PATH whose
plugins it lacks.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain.paths import LOGS, ROOT, STANDINS, cache
from toolchain.steps import SetupError, run, step
from toolchain.tools import installed

PROVIDER = "pulumi-resource-kubernetes"
DOWNLOAD_S = 60
FIRST_S = 600
KEEP_S = 24 * 3600
_LOGS = "logs"


def standins() -> list[Path]:
    """All stand-ins, by the names that Pulumi looks for."""
    return sorted(STANDINS.glob("*"))


def lacking(pulumi: Path, env: Mapping[str, str]) -> list[str]:
    """Names of the stand-ins that `pulumi` needs with the user's PATH, as it is; `env` is what it runs with."""
    names = [each.name for each in standins()]
    has_host, has_provider = installed.language_host(pulumi) is not None, _has_provider(env)
    return [name for name in names if not (has_provider if name == PROVIDER else has_host)]


def provider_version() -> str:
    """The version of the kubernetes plugin that goes with the locked SDK."""
    locked = re.search(r"^pulumi-kubernetes==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if not locked:
        raise SetupError("requirements.lock does not name pulumi-kubernetes", "restore it from git")
    return locked[1]


def home(env: Mapping[str, str]) -> Path:
    """Pulumi's own folder, where it keeps plugins."""
    return Path(env.get("PULUMI_HOME") or os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")


def own_environment(users: Path | None) -> dict[str, str]:
    """The variables for a pulumi of ours: a folder of its own; none for the one of the `users`."""
    return {} if users else {"PULUMI_HOME": str(cache() / "pulumi")}


def prepare_home(users: Path | None) -> dict[str, str]:
    """As `own_environment`, with that folder made, in which Pulumi then writes no log.

    Pulumi notes each call with all its properties in an encrypted file: more than half of the time of an update. It has
    no switch for that, and does without where `logs` cannot be made a folder (pkg/v3/logging/encrypted.go). What it
    prints is in the clone's own logs.
    """
    found = own_environment(users)
    if found:
        logs = home(found) / _LOGS
        with suppress(
            OSError
        ):  # another process's Pulumi may make the folder anew: the next set-up tries again
            logs.parent.mkdir(parents=True, exist_ok=True)
            if logs.is_dir():
                shutil.rmtree(logs)
            if not logs.exists():
                write_whole(logs, "A file instead of a folder: so Pulumi keeps no log of each call.\n")
    return found


def _has_provider(env: Mapping[str, str]) -> bool:
    folder = home(env) / "plugins" / f"resource-kubernetes-v{provider_version()}"
    return bool(installed.which(PROVIDER)) or folder.is_dir()


def fetch_provider(pulumi: Path, env: dict[str, str]) -> None:
    """Get Pulumi's kubernetes plugin where it is missing and can be downloaded."""
    version = provider_version()
    what = f"{PROVIDER}-{version}"
    if _has_provider(env) or _refused(what):
        return
    with step("Pulumi's kubernetes plugin") as progress:
        try:
            cmd: list[str | Path] = [pulumi, "plugin", "install", "resource", "kubernetes", version]
            run(cmd, log=LOGS / "pulumi-plugin.log", env=env, timeout=DOWNLOAD_S)
        except SetupError:
            progress.conclude("cannot be downloaded here; README says under Limits what runs in its place")
            _remember_refusal(what)
            return
    _forget(what)


def _refused(what: str) -> bool:
    """Whether `what` could not be downloaded lately.

    Lately is FIRST_S seconds ago at most, or KEEP_S where it was not the first time.
    """
    looks = _failed_looks(what)
    return bool(looks) and time.time() - looks[-1] < (KEEP_S if len(looks) > 1 else FIRST_S)


def _remember_refusal(what: str) -> None:
    """Note that `what` could not be downloaded, so that it is not asked for again at once.

    One failed look may be a cable that was out: only what fails again some time later is not to be had here.
    """
    looks = [*_failed_looks(what), time.time()]
    note = _note(what)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("".join(f"{look}\n" for look in looks))


def _forget(what: str) -> None:
    """Forget that `what` failed: it can be downloaded."""
    _note(what).unlink(missing_ok=True)


def _failed_looks(what: str) -> list[float]:
    """When `what` could not be had in the last KEEP_S seconds, in seconds since the epoch."""
    try:
        words = _note(what).read_text().split()
    except FileNotFoundError:
        return []
    return [look for look in map(float, words) if time.time() - look < KEEP_S]


def _note(what: str) -> Path:
    return cache() / "refused" / what
