"""Wait until an object is ready, by the rule of its kind or the annotation `waitFor`."""

from __future__ import annotations

from pulumi_standins import border
from pulumi_standins.kubernetes.awaiting import wait_for
from pulumi_standins.kubernetes.awaiting.rules import RULES
from pulumi_standins.kubernetes.awaiting.snapshot import Rule
from pulumi_standins.kubernetes.awaiting.wait_loop import look, wait
from pulumi_standins.kubernetes.objects import SKIP_AWAIT, WAIT_FOR, annotation, is_annotated, kind_of
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.values import Object


def check_annotations(inputs: Object) -> None:
    """Raise ValueError for an invalid `waitFor`, before the object is sent."""
    if text := annotation(inputs, WAIT_FOR):
        wait_for.rule(text)


def until_ready(session: Session, urn: str, inputs: Object, live: Object, seconds: float | None) -> Object:
    """Wait by the kind's rule and the annotations; returns the object as last seen.

    Parameters:
        inputs: the plain inputs with the annotations.
        live: the object as the server answered.
        seconds: the longest wait; None for the kind's default.

    Raises:
        NotReadyError: it did not become ready.
    """
    rule = _rule(inputs, live)
    if rule is None:
        if (kind := str(kind_of(live))) in border.NOT_AWAITED and not is_annotated(inputs, SKIP_AWAIT):
            session.engine.log(urn, border.not_awaited(kind), warning=True)
        return live
    last = wait(session, urn, rule, live, seconds or rule.seconds)
    session.engine.status(urn, "")
    return last


def check_ready(session: Session, urn: str, inputs: Object, live: Object) -> Object:
    """Judge the object once, for a refresh; raises NotReadyError if it is not ready."""
    rule = RULES.get(str(kind_of(live)))
    if rule is None or not rule.on_refresh or is_annotated(inputs, SKIP_AWAIT):
        return live
    found = look(session, urn, rule, live)
    session.engine.status(urn, "")
    return found


def _rule(inputs: Object, live: Object) -> Rule | None:
    if is_annotated(inputs, SKIP_AWAIT):
        return None
    if text := annotation(inputs, WAIT_FOR):
        return wait_for.rule(text)
    return RULES.get(str(kind_of(live)))
