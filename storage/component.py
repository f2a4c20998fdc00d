"""The volume in a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pulumi

from storage.manifests import Manifest, Volume, persistent_volume, persistent_volume_claim

Register = Callable[[Manifest, pulumi.ResourceOptions, pulumi.Resource | None], pulumi.Resource]


class Storage(pulumi.ComponentResource):
    """PersistentVolumes and their claims. Deleting them keeps the files: the policy is Retain.

    What Kubernetes lets one change in place is updated. Else volume and claim are made anew around the same files:
    pods first, then the claim, then the volume, since each is held by a finalizer as long as the one before is there.

    Parameters:
        register: turns a manifest into a resource. Its third argument is the resource that may be deleted only after
            this one.
        opts: bind the objects to their cluster.

    Attributes:
        ready: what a pod that mounts the volumes has to wait for.
        claims: the claims, in the order of `volumes`.
    """

    def __init__(
        self, *, name: str, volumes: list[Volume], register: Register, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("trainstack:storage:Storage", name)
        self.ready: list[pulumi.Resource] = []
        self.claims: list[pulumi.Resource] = []
        ours = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=self))
        for volume in volumes:
            replaced = pulumi.ResourceOptions(replacement_trigger=volume.fixed, delete_before_replace=True)
            there = register(persistent_volume(volume), pulumi.ResourceOptions.merge(ours, replaced), None)
            # A claim that comes before its volume is bound at the binder's next round, up to 15 s later.
            bound = pulumi.ResourceOptions(
                depends_on=[there], replace_on_changes=["spec"], delete_before_replace=True
            )
            claim = register(
                persistent_volume_claim(volume), pulumi.ResourceOptions.merge(ours, bound), there
            )
            self.ready += [there, claim]
            self.claims.append(claim)
        self.register_outputs({"claims": [volume.claim for volume in volumes]})
