"""Reads the manifests of scheduler-plugins: two CRDs, and the chart that installs it as a second scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.gang_scheduler import chart
from infra.objects.manifest import Manifest
from infra.process import CommandError

# What toolchain/tools/go builds (tests/unit/test_held_equal.py).
VERSION = "v0.33.5"
# The variable that names the folder `manifests` of its Go module.
MANIFESTS = "TRAINSTACK_SCHEDULER_MANIFESTS"
# Its controller reconciles both kinds, and ends where one is missing.
CRDS = ("coscheduling/crd.yaml", "capacityscheduling/crd.yaml")
PROFILE = "coscheduling/scheduler-config.yaml"
CHART = "install/charts/as-a-second-scheduler"
TEMPLATES = ("serviceaccount.yaml", "rbac.yaml", "deployment.yaml")


def folder(environment: Mapping[str, str]) -> Path:
    """The folder of the manifests. Raises CommandError where nobody has named one."""
    named = environment.get(MANIFESTS)
    if not named:
        raise CommandError(
            "the manifests of scheduler-plugins come from its Go module, and nobody has fetched it\n"
            "  fix: put Go on PATH, and run `make up` or `make review`"
        )
    return Path(named)


def rendered(manifests: Path, namespace: str) -> list[Manifest]:
    """All objects, the CRDs first.

    Parameters:
        manifests: upstream's folder.
        namespace: of the scheduler and its controller.
    """
    values = yaml.safe_load((manifests / CHART / "values.yaml").read_text())
    crds = [yaml.safe_load((manifests / name).read_text()) for name in CRDS]
    texts = ((manifests / CHART / "templates" / name).read_text() for name in TEMPLATES)
    return [*crds, *(each for text in texts for each in chart.objects(text, values, namespace))]


def profile(manifests: Path) -> dict[str, Any]:
    """The scheduler's configuration with the plugin Coscheduling alone."""
    found: dict[str, Any] = yaml.safe_load((manifests / PROFILE).read_text())
    return found
