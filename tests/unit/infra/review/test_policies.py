"""Each rule lets our own manifests pass, and names the fix where a stack breaks it."""

from __future__ import annotations

import pytest

from infra import stack_plan, volumes
from infra.guard import policy_rules
from infra.guard.conditions import Allowed
from infra.guard.policy_rules import RULES
from infra.job.manifest import manifest
from storage.manifests import manifests as volume_manifests
from tests.unit.infra.guard.bad_manifests import BAD, good
from tests.unit.infra.samples import job_context, stack

ALLOWED = Allowed(("/var/lib/trainstack",), frozenset({"busybox:1.37"}))


def test_our_own_manifests_pass() -> None:
    known = stack()
    objects = [
        stack_plan.namespace(known, "kubeflow"),
        *(each for volume in volumes.volumes(known) for each in volume_manifests(volume)),
        manifest(known.jobs[0], job_context()),
        *good(known).values(),
    ]
    assert policy_rules.violations(objects, ALLOWED) == []


@pytest.mark.parametrize("case", BAD)
def test_a_violation_names_the_fix(case: str) -> None:
    bad = BAD[case]
    made = bad.of(stack())
    assert [name for name, rule in RULES.items() if rule.problems(made, ALLOWED)] == [bad.rule]
    found = policy_rules.violations([made], ALLOWED)
    assert len(found) == 1, found
    assert bad.problem in found[0].problem
    assert bad.fix in found[0].fix
    assert found[0].object.startswith(bad.kind)


def test_every_rule_and_every_kind_of_it_has_a_manifest_that_breaks_it() -> None:
    assert {*RULES} == {bad.rule for bad in BAD.values()}, "write one into bad_manifests.yaml"
    kinds = {kind for rule in RULES.values() for kind in rule.scope.kinds}
    assert kinds == {bad.kind for bad in BAD.values()}


def test_an_unpinned_image_passes_where_the_stack_says_so() -> None:
    job = BAD["image by tag"].of(stack())
    assert policy_rules.violations([job], Allowed(ALLOWED.roots, frozenset({"trainer:latest"}))) == []
    assert policy_rules.violations([job], Allowed(ALLOWED.roots, repositories=("trainer",))) == []
