"""Which pods mount a claim."""

from __future__ import annotations

from collections.abc import Iterable

from storage.manifests import Manifest


def pods_with_claim(claim: str, pods: Iterable[Manifest]) -> list[Manifest]:
    """Those of `pods`, of the claim's namespace, that have the PersistentVolumeClaim of this name."""
    return [pod for pod in pods if claim in _claims(pod)]


def _claims(pod: Manifest) -> set[str]:
    sources = [each.get("persistentVolumeClaim") for each in pod["spec"].get("volumes") or []]
    return {source["claimName"] for source in sources if source}
