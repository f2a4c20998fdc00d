"""Kubernetes' strategic merge patch for a pod template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.config.pod_schema import DELETE, DIRECTIVE, MERGE_KEYS, REPLACE

# The lists whose entries keep only the fields that the patch names: `patchStrategy: merge,retainKeys`.
RETAIN_KEYS = ("resourceClaims", "volumes")


def merged(template: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A PodTemplateSpec that is `template` with `patch` merged over it; shares no mapping and no list with either.

    Mappings are merged, and null removes a field. A list with a merge key is merged by it; other lists are replaced.
    `$patch: replace` puts the patch's mapping or list in place of the template's. `$patch: delete` removes a list's
    entry, and empties a mapping. If the patch gives a volume another source, the template's source is removed, as
    with kubectl apply.

    The result is the same as an API server's, except in two cases. New entries of a list are after the template's
    entries; a server puts them first, and follows the patch's order. A directive also has its effect in a mapping that
    the template lacks, or that is replaced; a server drops such a mapping, or refuses the patch.

    Parameters:
        patch: one in which `infra.config.pod_schema.problems` finds nothing.

    Source: pkg/util/strategicpatch/patch.go of k8s.io/apimachinery 0.34.
    """
    if patch.get(DIRECTIVE) == DELETE:
        return {}
    found: dict[str, Any] = {} if patch.get(DIRECTIVE) == REPLACE else _copied(template)
    for name, value in patch.items():
        if name == DIRECTIVE:
            continue
        if value is None:
            found.pop(name, None)
        elif name not in found:
            found |= _copied({name: value})
        elif isinstance(value, Mapping):
            found[name] = merged(found[name], value)
        elif isinstance(value, list) and name in MERGE_KEYS:
            found[name] = _merged_list(name, found[name], value)
        else:
            found[name] = _copied(value)
    return found


def _merged_list(name: str, ours: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    key = MERGE_KEYS[name]
    if any(each.get(DIRECTIVE) == REPLACE for each in patch):
        return list(_copied(patch))
    deleted = [each[key] for each in patch if DIRECTIVE in each]
    found = [each for each in ours if each[key] not in deleted]
    for entry in (each for each in patch if DIRECTIVE not in each):
        place = next((n for n, each in enumerate(found) if each[key] == entry[key]), None)
        if place is None:
            found.append(_copied(entry))
            continue
        own = found[place]
        if name in RETAIN_KEYS and any(value is not None for each, value in entry.items() if each != key):
            own = {each: value for each, value in own.items() if each in entry}
        found[place] = merged(own, entry)
    return found


def _copied(value: Any) -> Any:
    """A copy without nulls, and without mappings that have `$patch: delete`: nothing is there to delete."""
    if isinstance(value, Mapping):
        kept = {name: each for name, each in value.items() if name != DIRECTIVE and each is not None}
        return {name: _copied(each) for name, each in kept.items() if _directive(each) != DELETE}
    return [_copied(each) for each in value if not _directive(each)] if isinstance(value, list) else value


def _directive(value: Any) -> Any:
    return value.get(DIRECTIVE) if isinstance(value, Mapping) else None
