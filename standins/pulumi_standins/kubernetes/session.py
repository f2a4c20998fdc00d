"""The context of an operation on a cluster that can be reached."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.engine_log import EngineLog
from pulumi_standins.kubernetes.objects import TIMEOUT_SECONDS, annotation
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.kubernetes.values import Object


@dataclass(frozen=True)
class Session:
    """The context of every operation.

    Parameters:
        client: the cluster's API.
        engine: the log that the user sees.
        cancelled: set when the user asks to stop.
    """

    client: ApiClient
    engine: EngineLog
    settings: Settings
    cancelled: threading.Event


def timeout_of(requested: float, inputs: Object) -> float | None:
    """Seconds to wait: the resource option `custom_timeouts`, else the annotation, else the kind's default."""
    if requested:
        return requested
    text = annotation(inputs, TIMEOUT_SECONDS)
    return float(text) if text.isdigit() else None
