"""Stand-ins for `snap`, `microk8s` and `docker save`, run as executables. State is a JSON file beside them.

What each sub-command does here is what its document says:

- `snap list NAME` prints a table, or fails with "error: no matching snaps installed"
  (snapcraft.io/docs/getting-started)
- `snap install NAME --classic --channel=C`; a channel that is not there is an error that lists what is
  (snapcraft.io/docs/channels); a confined snap needs --classic (snapcraft.io/docs/install-modes)
- `snap remove NAME --purge`, `snap refresh NAME --channel=C` (snapcraft.io/docs/quickstart-tour)
- `microk8s status` prints "microk8s is running" or "microk8s is not running..."; `--wait-ready` waits, `--timeout S`
  bounds the wait and makes it fail (microk8s.io/docs/command-reference)
- `microk8s start` (same document)
- `microk8s enable ADDON`: an add-on that is not there is an error; an enabled one is said to be so
  (microk8s.io/docs/addons)
- `microk8s config` prints a kubeconfig (microk8s.io/docs/working-with-kubectl)
- `microk8s images import` reads an archive from standard input (microk8s.io/docs/sideload)
- every microk8s command fails with "Insufficient permissions to access MicroK8s." for users outside its group
  (microk8s.io/docs/getting-started)

`faults` in the state: `denied`, `slow` (so many `status` calls until ready), `addon` (one that fails), `stuck`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ADDONS = {"dns", "hostpath-storage", "gpu", "registry"}
CHANNELS = {"1.33/stable", "1.34/stable", "1.34/edge"}
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- {name: microk8s-cluster, cluster: {server: "https://127.0.0.1:16443", certificate-authority-data: Y2E=}}
contexts:
- {name: microk8s, context: {cluster: microk8s-cluster, user: admin}}
current-context: microk8s
users:
- {name: admin, user: {token: secret}}
"""


def fail(text: str, code: int = 1) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(code)


def snap(state: dict[str, Any], verb: str, name: str, *options: str) -> None:
    channel = next((option.partition("=")[2] for option in options if option.startswith("--channel=")), "")
    if verb == "list":
        if not state["installed"]:
            fail("error: no matching snaps installed")
        print(
            f"Name      Version  Rev   Tracking     Publisher   Notes\nmicrok8s  v1.34.1  8000  {state['channel']}"
        )
    elif verb == "install":
        if channel not in CHANNELS:
            fail(
                f'error: requested a non-existing channel on amd64: snap "{name}" is not available on {channel}'
            )
        if "--classic" not in options:
            fail(f"error: This revision of snap {name!r} was published using classic confinement")
        state |= {"installed": True, "channel": channel, "running": True, "enabled": []}
    elif verb == "refresh":
        state["channel"] = channel
    elif verb == "remove":
        state |= {"installed": False, "running": False, "purged": "--purge" in options}


def microk8s(state: dict[str, Any], verb: str, *options: str) -> None:
    faults = state["faults"]
    if not state["installed"]:
        fail("microk8s: command not found", 127)
    if faults.get("denied"):
        fail(
            "Insufficient permissions to access MicroK8s.\nYou can either try again with sudo or join the group"
        )
    if verb == "status":
        waits = "--wait-ready" in options
        left = faults.get("slow", 0)
        ready = state["running"] and not faults.get("stuck") and (waits or left == 0)
        faults["slow"] = max(0, left - 1)
        if not ready:
            print("microk8s is not running. Use microk8s inspect for a deeper inspection.")
            if waits:
                sys.exit(1)
            return
        print("microk8s is running\nhigh-availability: no")
    elif verb == "start":
        state["running"] = True
    elif verb == "enable":
        (addon,) = options
        if addon not in ADDONS:
            fail(f"Addon {addon} was not found in any repository")
        if faults.get("addon") == addon:
            fail(f"Failed to enable {addon}: connection refused")
        if addon in state["enabled"]:
            print(f"Addon core/{addon} is already enabled")
        else:
            state["enabled"].append(addon)
    elif verb == "config":
        print(KUBECONFIG)
    elif verb == "images":
        state.setdefault("imported", []).append(sys.stdin.read())


def docker(verb: str, image: str) -> None:
    """Beside `microk8s images import`, whose state it leaves alone."""
    assert verb == "save"
    print(f"archive of {image}", end="")


def install(folder: Path, **initial: Any) -> Path:
    """Put the three executables into `folder`; returns the file with their state."""
    state = folder / "state.json"
    nothing = {"installed": False, "running": False, "enabled": [], "channel": "", "faults": {}, "calls": []}
    state.write_text(json.dumps(nothing | initial))
    for name in ("snap", "microk8s", "docker"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" "{state}" {name} "$@"\n')
        program.chmod(0o755)
    return state


if __name__ == "__main__":
    file, command, *words = sys.argv[1:]
    if command == "docker":
        docker(*words)
        sys.exit()
    known = json.loads(Path(file).read_text())
    known["calls"].append([command, *words])
    try:
        programs: dict[str, Callable[..., None]] = {"snap": snap, "microk8s": microk8s}
        programs[command](known, *words)
    finally:
        Path(file).write_text(json.dumps(known))
