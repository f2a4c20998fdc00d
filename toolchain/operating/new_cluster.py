"""What a cluster that is made on this machine needs of it, looked at before anything is made."""

from __future__ import annotations

from toolchain.operating import doctor, environment, state
from toolchain.operating.status import Health
from toolchain.steps import SetupError


def ensure_possible(before: state.Deployment, stack: str) -> None:
    """Raises SetupError where the node of a new cluster would get too few inotify instances.

    Its kube-proxy would crash again and again, and the operator would never get ready.

    Parameters:
        before: the stack's state.
    """
    if not environment.cluster(stack) or state.objects(before):
        return
    health, said, *fix = doctor.watches()
    if health is Health.NOT:
        raise SetupError(f"a new node could not watch its files: of inotify, {said}", *fix)
