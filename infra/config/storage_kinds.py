"""Kinds of storage, and the keys of section `storage` that each kind allows and requires."""

from __future__ import annotations

from enum import StrEnum

from infra.config.section import Section, ensure_kind_has_keys, refusal


class StorageKind(StrEnum):
    """Who creates the volume of the models, and where its files are."""

    HOST_PATH = "hostPath"
    CLASS = "class"
    CLAIM = "claim"
    NFS = "nfs"


OUR_VOLUME = (StorageKind.HOST_PATH, StorageKind.NFS)
"""Kinds for which the stack creates a PersistentVolume."""
OUR_CLAIM = (*OUR_VOLUME, StorageKind.CLASS)
"""Kinds for which the stack creates a claim."""

ONLY_FOR: dict[str, tuple[StorageKind, ...]] = {
    "volume": OUR_VOLUME,
    "labels": OUR_VOLUME,
    "capacity": OUR_VOLUME,
    "reclaimPolicy": OUR_VOLUME,
    "storageClass": OUR_CLAIM,
    "request": OUR_CLAIM,
    "accessMode": OUR_CLAIM,
    "hostPath": (StorageKind.HOST_PATH,),
    "nfsServer": (StorageKind.NFS,),
    "nfsPath": (StorageKind.NFS,),
}
REQUIRED: dict[StorageKind, tuple[str, ...]] = {
    StorageKind.HOST_PATH: (),
    StorageKind.CLASS: ("storage_class",),
    StorageKind.CLAIM: ("claim",),
    StorageKind.NFS: ("nfs_server", "nfs_path"),
}
OF_A_FOLDER = ("node", "shared")
"""Keys about a folder on the nodes, of models or data."""


def ensure_keys_fit(section: Section, kind: StorageKind) -> None:
    """Raises a refusal for a key that `kind` does not allow, or for an absent key that `kind` requires.

    Parameters:
        section: the whole section `storage`.
    """
    ensure_kind_has_keys(section, kind, lambda key: ONLY_FOR.get(key, ()))
    fields = type(section).model_fields
    for name in REQUIRED[kind]:
        if name not in section.model_fields_set:
            key, example = str(fields[name].alias), (fields[name].examples or ["…"])[0]
            fix = f"add `{key}: …`, for example `{key}: {example}`"
            raise refusal(f"a value, which `kind: {kind}` requires", fix, key, "(absent)")
