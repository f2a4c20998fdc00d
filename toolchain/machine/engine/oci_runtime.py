#!/usr/bin/python3 -IS
"""An OCI runtime in front of runc, for hosts whose root lacks capabilities.

`docker run --privileged` asks for every capability that the kernel knows; runc fails when the host's own root does
not hold one of them (CAP_SYS_RESOURCE, on some virtual machines). This wrapper rewrites what runc is about to read -
the bundle's config.json, and the process.json of an exec - so that a container asks only for what the host can give: no
capability outside the bounding set, no rlimit above the host's hard limit, no negative OOM score. Then it becomes runc.

It uses only the standard library, and runs with -IS, because it starts at every container and every exec.
"""

import json
import os
import resource
import sys
from typing import Any

# Order of the bits in /proc/<pid>/status, from linux/capability.h.
NAMES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
CAPABILITIES = NAMES.split()


def bounding_set(status: str) -> set[str]:
    """Names (CAP_...) of the capabilities in the CapBnd line of a /proc/<pid>/status text."""
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd:"))
    return {f"CAP_{name}" for bit, name in enumerate(CAPABILITIES) if mask >> bit & 1}


def limit_to_host(process: dict[str, Any], held: set[str]) -> None:
    """Reduce an OCI `process` object, in place, to what a host holding `held` can grant."""
    for kind, wanted in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in wanted or [] if name in held]
    for limit in process.get("rlimits") or []:
        _, hard = resource.getrlimit(getattr(resource, limit["type"]))
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], limit["hard"])
    if (process.get("oomScoreAdj") or 0) < 0:
        process["oomScoreAdj"] = 0


def option(arguments: list[str], *names: str) -> str | None:
    """The value of the first of the options `names` in a command line, as `--name value` or `--name=value`."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            return value if equals else arguments[position + 1]
    return None


def rewrite(path: str, key: str | None, held: set[str]) -> None:
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    limit_to_host(document[key] if key else document, held)
    temporary = f"{path}.fitted"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(temporary, path)


def main(arguments: list[str]) -> None:
    with open("/proc/self/status", encoding="ascii") as file:
        held = bounding_set(file.read())
    if {"create", "run"} & set(arguments):
        rewrite(os.path.join(option(arguments, "--bundle", "-b") or ".", "config.json"), "process", held)
    elif "exec" in arguments and (process := option(arguments, "--process", "-p")):
        rewrite(process, None, held)
    os.execvp("runc", ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
