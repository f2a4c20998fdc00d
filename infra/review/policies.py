"""What a review and a preview refuse: manifests that break a rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.guard.conditions import Allowed
from infra.guard.policy_rules import RULES
from infra.objects.manifest import Manifest, title


@dataclass(frozen=True)
class Violation:
    """An object that breaks a policy: what is wrong with it, and the way out."""

    object: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}\n  fix: {self.fix}"


def violations(manifests: Iterable[Manifest], allowed: Allowed) -> list[Violation]:
    """Everything that breaks a rule, in the order of the manifests."""
    return [
        Violation(title(manifest), problem, rule.fix)
        for manifest in manifests
        for rule in RULES.values()
        for problem in rule.problems(manifest, allowed)
    ]
