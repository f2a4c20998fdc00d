"""The volumes in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pulumi

from storage.manifests import (
    Claim,
    Manifest,
    ProvisionedClaim,
    Volume,
    persistent_volume,
    persistent_volume_claim,
)

Register = Callable[[Manifest, pulumi.ResourceOptions, pulumi.Resource | None], pulumi.Resource]


class Storage(pulumi.ComponentResource):
    """PersistentVolumes and claims, those that are ours. Deleting them keeps the files.

    Of a volume of ours the policy is Retain. What Kubernetes lets one change in place is updated. Else volume and claim
    are made anew around the same files: pods first, then the claim, then the volume, since each is held by a finalizer
    as long as the one before is there.

    A provisioned volume may go with its claim, by its class's reclaim policy, so that Pulumi never deletes that claim.

    Parameters:
        register: turns a manifest into a resource. Its third argument is the resource that may be deleted only after
            this one.
        opts: bind the objects to their cluster.

    Attributes:
        ready: what a pod that mounts the volumes has to wait for.
        claims: the claims that are ours, in the order of `volumes`.
    """

    def __init__(
        self, *, name: str, volumes: Sequence[Claim], register: Register, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("trainstack:storage:Storage", name)
        self.ready: list[pulumi.Resource] = []
        self.claims: list[pulumi.Resource] = []
        self._register = register
        self._opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=self))
        for volume in volumes:
            if isinstance(volume, Volume):
                self._own_volume(volume)
            elif isinstance(volume, ProvisionedClaim):
                self._provisioned(volume)
        self.register_outputs({"claims": [volume.claim for volume in volumes]})

    def _own_volume(self, volume: Volume) -> None:
        replaced = pulumi.ResourceOptions(replacement_trigger=volume.fixed, delete_before_replace=True)
        there = self._register(persistent_volume(volume), self._with(replaced), None)
        # A claim that comes before its volume is bound at the binder's next round, up to 15 s later.
        bound = pulumi.ResourceOptions(
            depends_on=[there], replace_on_changes=["spec"], delete_before_replace=True
        )
        claim = self._register(persistent_volume_claim(volume), self._with(bound), there)
        self.ready += [there, claim]
        self.claims.append(claim)

    def _provisioned(self, volume: ProvisionedClaim) -> None:
        kept = pulumi.ResourceOptions(retain_on_delete=True)
        claim = self._register(persistent_volume_claim(volume), self._with(kept), None)
        self.ready.append(claim)
        self.claims.append(claim)

    def _with(self, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(self._opts, opts)
