"""The effect of a change of each key of the stack file on a running stack, from the key's `setting`.

tests/matrix changes every key on a running stack and compares the outcome with these rules; docs/configuration.md shows
them.
"""

from __future__ import annotations

from infra.cluster_kinds import ClusterKind
from infra.config.load import Sections
from infra.config.section import Outcome, said

OUTCOMES: dict[str, Outcome] = said(Sections, "changing")
"""The path of a key -> the usual outcome."""
ON_KIND: dict[str, Outcome] = said(Sections, "on_kind")
"""The path of a key -> the outcome in a kind cluster, if it differs."""
NOTES: dict[str, str] = said(Sections, "note")
"""The path of a key -> the exceptions from its rule, in words."""


def outcome(key: str, kind: ClusterKind) -> Outcome:
    """The effect of a change of `key` on a stack in a cluster of `kind`. Raises KeyError for a key without a rule."""
    return ON_KIND.get(key, OUTCOMES[key]) if kind.has_our_nodes else OUTCOMES[key]
