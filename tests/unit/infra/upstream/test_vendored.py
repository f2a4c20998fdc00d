"""Upstream's manifests are read as they lie there, and stay as they were read."""

from __future__ import annotations

import copy

from infra import operators
from infra.clusters.discovery import ClusterContents
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import plan
from infra.upstream import vendored
from tests.unit.infra.samples import stack

PROJECTS = ("training-operator", "jobset", "trainer", "kueue")


def test_the_definitions_come_first() -> None:
    for project in PROJECTS:
        kinds = [each["kind"] == CRD_KIND for each in vendored.objects(project)]
        assert kinds == sorted(kinds, reverse=True)
        assert kinds[0]
        assert not kinds[-1]


def test_patching_changes_nothing_that_was_read() -> None:
    before = {project: copy.deepcopy(vendored.objects(project)) for project in PROJECTS}
    for api in ("v1", "v2"):
        known = stack(operator={"api": api, "queue": "kueue", "namespace": "elsewhere"})
        operators.manifests(known, plan(known, ClusterContents()))
    assert {project: vendored.objects(project) for project in PROJECTS} == before
