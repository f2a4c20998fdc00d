"""What every operation of a configured provider needs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pulumi_standins.kubernetes.cluster import Cluster
from pulumi_standins.kubernetes.engine import Engine
from pulumi_standins.kubernetes.objects import TIMEOUT_SECONDS, annotation
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.kubernetes.values import Object


@dataclass(frozen=True)
class Session:
    """A reachable cluster and the engine to report to."""

    cluster: Cluster
    engine: Engine
    settings: Settings
    cancelled: threading.Event


def timeout_of(requested: float, inputs: Object) -> float | None:
    """Seconds to wait: the resource option `custom_timeouts`, else the annotation, else the kind's default."""
    if requested:
        return requested
    text = annotation(inputs, TIMEOUT_SECONDS)
    return float(text) if text.isdigit() else None
