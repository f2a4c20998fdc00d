"""Pulumi's language host and kubernetes plugin: Pulumi's own where they can be downloaded, else our stand-ins.

A stand-in is linked into the folder that is first on PATH, and Pulumi prefers what it finds on PATH to its
own plugin cache: so only those that are missing are linked.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from toolchain.paths import LOGS, ROOT, STANDINS, cache
from toolchain.steps import SetupError, run, step
from toolchain.tools import installed, unavailable

PROVIDER = "pulumi-resource-kubernetes"
DOWNLOAD_S = 60


def standins(pulumi: Path, env: dict[str, str]) -> list[Path]:
    """The stand-ins that `pulumi` needs on this machine; `env` is what it runs with."""
    missing = []
    if installed.language_host(pulumi) is None:
        missing += [path for path in sorted(STANDINS.glob("*")) if path.name != PROVIDER]
    if not _provider(pulumi, env):
        missing.append(STANDINS / PROVIDER)
    return missing


def provider_version() -> str:
    """The version of the kubernetes plugin that goes with the locked SDK."""
    locked = re.search(r"^pulumi-kubernetes==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if not locked:
        raise SetupError("requirements.lock does not name pulumi-kubernetes", "restore it from git")
    return locked[1]


def home(env: dict[str, str]) -> Path:
    """Pulumi's own folder, where it keeps plugins."""
    return Path(env.get("PULUMI_HOME") or os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")


def own_home() -> Path:
    """The folder of a pulumi that we have built."""
    return cache() / "pulumi"


def _provider(pulumi: Path, env: dict[str, str]) -> bool:
    version = provider_version()
    what = f"{PROVIDER}-{version}"
    if installed.which(PROVIDER) or (home(env) / "plugins" / f"resource-kubernetes-v{version}").is_dir():
        return True
    if unavailable.refused(what):
        return False
    with step("Pulumi's kubernetes plugin") as progress:
        try:
            cmd: list[str | Path] = [pulumi, "plugin", "install", "resource", "kubernetes", version]
            run(cmd, log=LOGS / "pulumi-plugin.log", env=env, timeout=DOWNLOAD_S)
        except SetupError:
            progress.conclude("cannot be downloaded here; README says under Limits what runs in its place")
            unavailable.remember_refusal(what)
            return False
    unavailable.forget(what)
    return True
