"""The volume in a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pulumi

from storage.manifests import Manifest, Volume, persistent_volume, persistent_volume_claim

Register = Callable[[Manifest, pulumi.ResourceOptions], pulumi.Resource]


class Storage(pulumi.ComponentResource):
    """PersistentVolumes and their claims; `ready` holds what a pod that mounts them has to wait for.

    `register` turns a manifest into a resource; `opts` binds it to the cluster. Deleting them keeps the files: the
    policy is Retain, and nobody but the kubelet's user could empty a hostPath anyhow.
    """

    def __init__(
        self, *, name: str, volumes: list[Volume], register: Register, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("trainstack:storage:Storage", name)
        self.ready: list[pulumi.Resource] = []
        for volume in volumes:
            merged = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=self))
            there = register(persistent_volume(volume), merged)
            # A claim that comes before its volume is bound at the binder's next round, up to 15 s later.
            after = pulumi.ResourceOptions.merge(merged, pulumi.ResourceOptions(depends_on=[there]))
            self.ready += [there, register(persistent_volume_claim(volume), after)]
        self.register_outputs({"claims": [volume.claim for volume in volumes]})
