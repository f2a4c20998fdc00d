"""What changing a key of the stack file does to a stack that is up, as each key says it by `setting`.

tests/matrix changes every key on a running stack and holds the outcome to these rules; docs/configuration.md shows
them.
"""

from __future__ import annotations

from infra.cluster_kinds import ClusterKind
from infra.config.load import Sections
from infra.config.section import Outcome, said

OUTCOMES: dict[str, Outcome] = said(Sections, "changing")
"""The path of a key -> the usual outcome."""
ON_KIND: dict[str, Outcome] = said(Sections, "on_kind")
"""The path of a key -> the outcome with kind, where it is another one."""
NOTES: dict[str, str] = said(Sections, "note")
"""The path of a key -> what its rule leaves out, in one sentence."""


def outcome(key: str, kind: ClusterKind) -> Outcome:
    """What changing `key` does to a stack on a cluster of `kind`. Raises KeyError for a key without a rule."""
    return ON_KIND.get(key, OUTCOMES[key]) if kind.has_our_nodes else OUTCOMES[key]
