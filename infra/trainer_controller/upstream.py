"""Reads the manifests of Kubeflow Trainer and JobSet through `kubectl kustomize`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.objects.manifest import Manifest
from infra.training_operator import overlay

# Beside each other: what toolchain/tools/go builds (tests/unit/test_held_equal.py).
TRAINER_VERSION = "v2.2.0"
JOBSET_VERSION = "v0.11.1"
# Variables that name the folder of each one's Go module.
TRAINER = "TRAINSTACK_TRAINER_MANIFESTS"
JOBSET = "TRAINSTACK_JOBSET_MANIFESTS"
# Upstream's overlays add a runtime for each framework, and JobSet from a release's page.
PARTS = ("crds", "manager", "rbac", "webhook")
_TRAINER_URL = "https://github.com/kubeflow/trainer.git/manifests/base/{part}?ref=" + TRAINER_VERSION
_JOBSET_URL = f"https://github.com/kubernetes-sigs/jobset.git/config/default?ref={JOBSET_VERSION}"


def locations(environment: Mapping[str, str]) -> list[str]:
    """The folders or URLs of JobSet's manifests and of each part of the trainer's."""
    jobset, trainer = environment.get(JOBSET), environment.get(TRAINER)
    parts = [f"{trainer}/{part}" if trainer else _TRAINER_URL.format(part=part) for part in PARTS]
    return [jobset or _JOBSET_URL, *parts]


def rendered(environment: Mapping[str, str], cache: Path, jobset: bool = True) -> list[Manifest]:
    """All objects, JobSet's first. Raises CommandError.

    Parameters:
        environment: may name the folders.
        cache: the folder that keeps them as JSON.
        jobset: whether JobSet's are among them.
    """
    places = locations(environment)[0 if jobset else 1 :]
    return [each for where in places for each in overlay.rendered(where, cache)]
