"""Pulumi's language host and kubernetes plugin: Pulumi's own if they can be downloaded, else our stand-ins.

Pulumi prefers plugins on PATH to its own plugin cache. So a shell's PATH gets only stand-ins for plugins that the shell
lacks.
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
    """All stand-ins, with the names that Pulumi looks for."""
    return sorted(STANDINS.glob("*"))


def lacking(pulumi: Path, env: Mapping[str, str]) -> list[str]:
    """Names of the stand-ins that `pulumi` needs with the user's PATH; `env` are its variables."""
    names = [each.name for each in standins()]
    has_host, has_provider = installed.language_host(pulumi) is not None, _has_provider(env)
    return [name for name in names if not (has_provider if name == PROVIDER else has_host)]


def provider_version() -> str:
    """The version of the kubernetes plugin for the locked SDK."""
    locked = re.search(r"^pulumi-kubernetes==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if not locked:
        raise SetupError(
            "requirements.lock does not name pulumi-kubernetes", "restore requirements.lock from Git"
        )
    return locked[1]


def home(env: Mapping[str, str]) -> Path:
    """Pulumi's own folder, where it keeps plugins."""
    return Path(env.get("PULUMI_HOME") or os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")


def own_environment(users: Path | None) -> dict[str, str]:
    """The variable that names the folder of our own pulumi; none if `users`, the user's own pulumi, is used."""
    return {} if users else {"PULUMI_HOME": str(cache() / "pulumi")}


def prepare_home(users: Path | None) -> dict[str, str]:
    """As `own_environment`; also create Pulumi's folder in such a way that Pulumi writes no log into it.

    Pulumi logs each call with all its properties in an encrypted file, which takes more than half of an update's time.
    Pulumi has no option that turns this off, but writes no log if it cannot create the folder `logs`
    (pkg/v3/logging/encrypted.go). Pulumi's output is in the clone's own logs.
    """
    found = own_environment(users)
    if found:
        logs = home(found) / _LOGS
        with suppress(OSError):  # another Pulumi may create the folder again; the next set-up removes it
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
    """Download Pulumi's kubernetes plugin if it is missing and no recent download has failed."""
    version = provider_version()
    what = f"{PROVIDER}-{version}"
    if _has_provider(env) or _refused(what):
        return
    with step("Pulumi's kubernetes plugin") as progress:
        try:
            cmd: list[str | Path] = [pulumi, "plugin", "install", "resource", "kubernetes", version]
            run(cmd, log=LOGS / "pulumi-plugin.log", env=env, timeout=DOWNLOAD_S)
        except SetupError:
            progress.conclude("cannot be downloaded; our stand-in runs instead: README.md, Limits")
            _remember_refusal(what)
            return
    _note(what).unlink(missing_ok=True)  # the download has succeeded


def _refused(what: str) -> bool:
    """Whether a recent download of `what` failed.

    Recent means within FIRST_S seconds after a first failure, and within KEEP_S after a later one.
    """
    failures = _failures(what)
    return bool(failures) and time.time() - failures[-1] < (KEEP_S if len(failures) > 1 else FIRST_S)


def _remember_refusal(what: str) -> None:
    """Record that the download of `what` failed, so that it is not tried again at once.

    A single failure may be a short network fault. Only a second failure some time later means that it cannot be
    downloaded here.
    """
    failures = [*_failures(what), time.time()]
    note = _note(what)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("".join(f"{failure}\n" for failure in failures))


def _failures(what: str) -> list[float]:
    """The times of failed downloads of `what`, in seconds since 1970, none older than KEEP_S seconds."""
    try:
        words = _note(what).read_text().split()
    except FileNotFoundError:
        return []
    return [failure for failure in map(float, words) if time.time() - failure < KEEP_S]


def _note(what: str) -> Path:
    return cache() / "refused" / what
