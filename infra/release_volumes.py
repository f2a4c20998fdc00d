"""Makes the stack's volumes usable again after an unfinished deletion.

A deleted claim stays Terminating as long as a pod mounts it, even if the pod has finished. After that the claim's
volume is Released: the volume still names the old claim, and no other claim can bind it. A deleted volume stays
Terminating as long as a claim is bound to it. Pulumi sees none of this, so this module runs before `pulumi up`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import volumes
from infra.agreed import ProgramError
from infra.clusters import addresses
from infra.config import ConfigError, Stack
from infra.config.load import from_file
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.job_kinds import OF_API
from infra.objects.kinds import CLAIM, POD, VOLUME, Kind, is_leaving
from infra.objects.labels import job_of
from infra.objects.look import NOT_FOUND, ForbiddenError, Look
from infra.objects.retry import FORBIDDEN, PATIENCE_S, Patience
from infra.volumes import pods_with_claim
from storage.manifests import Manifest, Volume

RELEASED = ("Released", "Failed")
RECLAIM, RETAIN = "persistentVolumeReclaimPolicy", "Retain"
# How long the deletion of finished pods and a claim may take, in seconds.
GONE_S = 120
PAUSE_S = 1


class HeldError(ProgramError):
    """A claim or a volume is being deleted, and an object that is not ours holds it."""


class Releasing:
    """The volumes of one stack in its cluster.

    Parameters:
        show: gets a line for each step, and about a server that is away.
        own: titles of the stack's objects, also objects that its file does not name: a search's trials, earlier jobs.
    """

    def __init__(
        self, stack: Stack, address: ApiAddress, show: Callable[[str], None], own: Collection[str] = ()
    ) -> None:
        self.stack, self.api, self.show, self.own = stack, ClusterApi.at(address), show, own
        self.look, self.patience = Look(address, show, limit_s=PATIENCE_S), Patience(show)

    def run(self) -> None:
        """Free each volume of ours. Raises HeldError, UnknownError, UnreachableError."""
        for volume in volumes.volumes(self.stack):
            claim = self.look.get(CLAIM, volume.claim, volume.namespace)
            is_ending = _is_ending(claim)
            if isinstance(volume, Volume):
                found = self.look.get(VOLUME, volume.name)
                if claim is not None and (is_ending or _is_ending(found)):
                    self._keep_files(volume, found)
                    if not is_ending:
                        self._give_claim_up(volume)
                        is_ending = True
                    self._end_claim(volume)
                if _is_ending(found):
                    self._await_end(volume)
                elif found is not None:
                    self._forget_claim(volume, found, None if is_ending else claim)
            elif is_ending:
                raise HeldError(
                    f"claim {volume.namespace}/{volume.claim} is Terminating, and its files may be deleted with it; "
                    "nothing was touched\n  fix: while a pod still mounts the claim, copy the files that you need; "
                    "then delete the pods that mount the claim, and name another claim in storage.claim"
                )

    def _keep_files(self, volume: Volume, found: Manifest | None) -> None:
        """Set the reclaim policy Retain again, if somebody changed it: then the files outlive the claim."""
        if found is not None and found["spec"].get(RECLAIM) != RETAIN:
            kept = [{"op": "add", "path": f"/spec/{RECLAIM}", "value": RETAIN}]
            self._change(self.api.patch, VOLUME, volume.name, kept)

    def _give_claim_up(self, volume: Volume) -> None:
        """Delete the claim that holds our Terminating volume. The next update creates both again."""
        self.show(
            f"volume {volume.name} is Terminating: deleting claim {volume.claim}, which holds it; the files stay"
        )
        self._change(self.api.delete, CLAIM, volume.claim, volume.namespace)

    def _await_end(self, volume: Volume) -> None:
        """Wait until a Terminating volume without a claim no longer exists. Raises HeldError."""

        def held(found: Manifest) -> str:
            return f"volume {volume.name} is Terminating, {_by_finalizers(found)}"

        self._await_gone(lambda: self.look.get(VOLUME, volume.name), held)

    def _end_claim(self, volume: Volume) -> None:
        """Delete our jobs that hold a Terminating claim. The next update creates them again."""
        kind = OF_API[self.stack.operator.api]
        before = f"{kind.kind}/{volume.namespace}/"
        names = {job.name for job in self.stack.jobs}
        names |= {each.removeprefix(before) for each in self.own if each.startswith(before)}
        pods = self._pods(volume)
        held = sorted({job_of(pod["metadata"].get("labels")) for pod in pods} & names)
        for name in held:
            self.show(f"claim {volume.claim} is Terminating: deleting {kind.kind} {name}, whose pods hold it")
            self._change(self.api.delete, kind, name, volume.namespace, propagation="Foreground")

        def holders(found: Manifest) -> str:
            others = [pod["metadata"]["name"] for pod in self._pods(volume)]
            delete = f"kubectl --namespace {volume.namespace} delete pod {' '.join(others)}"
            by_pods = f"held by: {', '.join(others)}\n  fix: delete these pods ({delete}), then run this command again"
            held = by_pods if others else _by_finalizers(found)
            return f"claim {volume.namespace}/{volume.claim} is Terminating, {held}"

        self._await_gone(lambda: self.look.get(CLAIM, volume.claim, volume.namespace), holders)

    @staticmethod
    def _await_gone(look: Callable[[], Manifest | None], held: Callable[[Manifest], str]) -> None:
        """Wait until `look` finds no object. Raises HeldError with the text of `held` for the last object found."""
        end = time.monotonic() + GONE_S
        while (found := look()) is not None:
            if time.monotonic() > end:
                raise HeldError(held(found))
            time.sleep(PAUSE_S)

    def _pods(self, volume: Volume) -> list[Manifest]:
        return pods_with_claim(volume.claim, self.look.listed(POD, volume.namespace) or [])

    def _forget_claim(self, volume: Volume, found: Manifest, claim: Manifest | None) -> None:
        """Let a new claim bind a volume that is bound to a deleted claim: remove the uid from its claimRef.

        With this uid, the next claim of that name would be Pending for ever. The volume's phase may still be Bound,
        because the controller sees the deletion a moment later.
        """
        bound = found["spec"].get("claimRef") or {}
        uid = bound.get("uid")
        if not uid or (claim is not None and claim["metadata"]["uid"] == uid):
            return
        is_ours = (bound.get("namespace"), bound.get("name")) == (volume.namespace, volume.claim)
        if not is_ours and found["status"]["phase"] not in RELEASED:
            return
        same = {"op": "test", "path": "/spec/claimRef/uid", "value": uid}
        removed = [{"op": "remove", "path": f"/spec/claimRef/{key}"} for key in ("uid", "resourceVersion")]
        self.show(
            f"volume {volume.name} is bound to a deleted claim: making it available for a new claim; the files stay"
        )
        self._change(self.api.patch, VOLUME, volume.name, [same, *removed])

    def _change(self, call: Callable[..., Any], kind: Kind, *arguments: Any, **options: Any) -> None:
        """Change an object, if it still exists, and try again while the API server is away."""
        try:
            self.patience.ask(lambda: call(kind, *arguments, **options))
        except ApiException as error:
            if error.status == FORBIDDEN:
                raise ForbiddenError(
                    f"this user may not {call.__name__} {kind.plural}\n  fix: ask an administrator for this right"
                ) from None
            if error.status != NOT_FOUND:
                raise


def _by_finalizers(found: Manifest) -> str:
    """What holds a Terminating object that no pod uses, and the fix."""
    holding = ", ".join(found["metadata"].get("finalizers") or ())
    fix = "let the program that set these finalizers remove them, then run this command again"
    return f"held by its finalizers: {holding}\n  fix: {fix}"


def _is_ending(found: Manifest | None) -> bool:
    """Whether the object is being deleted."""
    return found is not None and is_leaving(found)


def release(file: Path, own: Collection[str], show: Callable[[str], None]) -> None:
    """As `Releasing`, for the stack of a file."""
    try:
        stack = from_file(file)
        releasing = Releasing(stack, addresses.of_stack(stack), show, own)
    except (ConfigError, ConfigException):
        return  # Pulumi says what is wrong with the file; without a kubeconfig there is no cluster yet
    releasing.run()
