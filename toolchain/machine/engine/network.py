"""Saves the host's network settings before dockerd starts, and restores them after it has stopped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SYSCTLS = (
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/forwarding",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
)
FAMILIES = ("iptables", "ip6tables")


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name


def _rules(family: str) -> str:
    if shutil.which(f"{family}-save") is None:
        return ""
    return subprocess.run([f"{family}-save"], capture_output=True, text=True, check=False).stdout


def _bridges() -> set[str]:
    links = (link.name for link in Path("/sys/class/net").iterdir())
    return {name for name in links if name == "docker0" or re.fullmatch(r"br-[0-9a-f]{12}", name)}


def save_settings(path: Path) -> None:
    """Write the current forwarding settings, forward policy and Docker bridges to `path`, once per boot.

    A file of an earlier boot does not count.
    """
    if _saved_settings(path):
        return
    values = {name: _sysctl(name).read_text().strip() for name in SYSCTLS if _sysctl(name).exists()}
    rules = {family: _rules(family) for family in FAMILIES}
    kept = {
        "boot": boot_id(),
        "sysctls": values,
        "policies": {family: _forward_policy(text) for family, text in rules.items()},
        "bridges": sorted(_bridges()),
        "other_engine": any(":DOCKER " in text for text in rules.values()),
    }
    path.write_text(json.dumps(kept))


def boot_id() -> str:
    """The id of this boot; each start of the machine has another one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _saved_settings(path: Path) -> dict[str, Any] | None:
    """What `save_settings` wrote in this boot; None if there is no whole file of this boot."""
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return kept if kept.get("boot") == boot_id() else None


def _forward_policy(rules: str) -> str:
    found = re.search(r"^:FORWARD (\w+)", rules, re.MULTILINE)
    return found[1] if found else "ACCEPT"


def rules_without(rules: str, bridges: Sequence[str], chains: bool) -> str:
    """An iptables-save text without the rules of `bridges`, and if `chains` is true, without Docker's own chains.

    Each of Docker's rules names a bridge or a chain DOCKER..., except the masquerading of a container that calls its
    own published port: there, source and destination are the same address.
    """
    marks = [rf"\b{re.escape(name)}\b" for name in bridges]
    if chains:
        marks += [r"^:DOCKER", r"\bDOCKER\b", r"^-A POSTROUTING -s (\S+) -d \1 .*MASQUERADE"]
    ours = re.compile("|".join(marks) or r"(?!)")
    return "".join(line for line in rules.splitlines(keepends=True) if not ours.search(line))


def restore_settings(path: Path) -> None:
    """Restore the settings that `save_settings` wrote to `path`, and delete later bridges with their rules.

    After a reboot there is nothing to restore: the kernel keeps none of these settings, bridges and rules.
    """
    kept = _saved_settings(path)
    if kept is None:
        path.unlink(missing_ok=True)
        return
    bridges = sorted(_bridges() - set(kept["bridges"]))
    for family in FAMILIES:
        if rules := _rules(family):
            cleaned = rules_without(rules, bridges, chains=not kept["other_engine"])
            policy = f":FORWARD {kept['policies'][family]}"
            cleaned = re.sub(r"^:FORWARD \w+", policy, cleaned, flags=re.MULTILINE)
            subprocess.run([f"{family}-restore"], input=cleaned, text=True, check=False)
    for name in bridges:
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
    if not kept["other_engine"]:
        for name, value in kept["sysctls"].items():
            _sysctl(name).write_text(value)
    path.unlink()
