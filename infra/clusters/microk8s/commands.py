"""Our calls of `snap` and `microk8s`.

Each function relies on a behaviour of MicroK8s, and names the document that describes it. Tests run against a stand-in
that follows the same documents. Nothing here was run against a real MicroK8s.
"""

from __future__ import annotations

from infra.agreed import ProgramError
from infra.process import CommandError, output

WAIT_S = 600
# Reads an archive of `docker save` (microk8s.io/docs/sideload).
IMPORT_IMAGE = ("microk8s", "images", "import")


class MicroK8sError(ProgramError):
    """MicroK8s cannot be installed or does not become ready."""


def installed() -> bool:
    """Whether the snap is installed. Without it, `snap list <name>` fails with "no matching snaps installed".

    Source: snapcraft.io/docs/getting-started
    """
    try:
        output("snap", "list", "microk8s")
    except CommandError as error:
        if "no matching snaps" in str(error):
            return False
        raise
    return True


def install(channel: str) -> None:
    """Install a classic snap from a pinned channel (microk8s.io/docs/setting-snap-channel). Raises MicroK8sError."""
    fix = "start snapd, run the command as root, and use a channel that `snap info microk8s` lists"
    problem = f"microk8s cannot be installed from channel {channel}"
    _done(problem, fix, "snap", "install", "microk8s", "--classic", f"--channel={channel}")


def _done(problem: str, fix: str, *command: str) -> str:
    """The output of `command`. Raises MicroK8sError."""
    try:
        return output(*command)
    except CommandError as error:
        raise MicroK8sError(f"{problem}.\n{error}\n  fix: {fix}") from None


def refresh(channel: str) -> None:
    """Move to another channel in place (microk8s.io/docs/upgrading). Raises CommandError."""
    output("snap", "refresh", "microk8s", f"--channel={channel}")


def remove() -> None:
    """Remove MicroK8s. With --purge, no snapshot of its data stays (microk8s.io/docs/command-reference).

    Raises CommandError.
    """
    output("snap", "remove", "microk8s", "--purge")


def start() -> None:
    """Start MicroK8s. It may run already (microk8s.io/docs/command-reference#heading--microk8s-start).

    Raises CommandError.
    """
    output("microk8s", "start")


def running() -> bool:
    """Whether MicroK8s runs: then `status` begins with "microk8s is running".

    Source: microk8s.io/docs/command-reference#heading--microk8s-status
    """
    try:
        return "microk8s is running" in output("microk8s", "status", "--timeout", "10")
    except CommandError:
        return False


def wait_ready() -> None:
    """`status --wait-ready --timeout` waits, and fails when the time is up. Raises MicroK8sError.

    Source: as for `running`.
    """
    fix = "`microk8s inspect` shows what is wrong"
    command = ("microk8s", "status", "--wait-ready", "--timeout", str(WAIT_S))
    text = _done(f"microk8s is not ready after {WAIT_S} s", fix, *command)
    if "microk8s is running" not in text:
        raise MicroK8sError(f"microk8s is not running:\n{text.strip()}\n  fix: {fix}")


def enable(addon: str) -> None:
    """Enable one add-on, which may be enabled already. Raises MicroK8sError.

    The document asks for a separate command for each add-on (microk8s.io/docs/addons).
    """
    fix = f"`microk8s enable {addon}` shows what is wrong"
    _done(f"add-on {addon} cannot be enabled", fix, "microk8s", "enable", addon)


def kubeconfig() -> str:
    """An administrator's kubeconfig (microk8s.io/docs/working-with-kubectl). Raises CommandError."""
    return output("microk8s", "config")
