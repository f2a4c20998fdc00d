"""Which fields of an object the state must encrypt."""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import LAST_APPLIED, nested
from pulumi_standins.kubernetes.values import Object, Secret, has_secret


def mark_secrets(outputs: Object, inputs: Object) -> None:
    """Mark secret inputs as secret in the outputs, and all data of a v1/Secret.

    If anything is secret, kubectl's copy of the whole object in an annotation is secret, too.

    In a map, only the secret value is encrypted; a list with a secret inside becomes secret as a whole, because servers
    may reorder lists.
    """
    if outputs.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in outputs and not isinstance(outputs[key], Secret):
                outputs[key] = Secret(outputs[key])
    if outputs.get("kind") == "Secret" or has_secret(inputs):
        annotations = nested(outputs, "metadata", "annotations", default={})
        if isinstance(annotations, dict) and isinstance(annotations.get(LAST_APPLIED), str):
            annotations[LAST_APPLIED] = Secret(annotations[LAST_APPLIED])
    for key, given in inputs.items():
        if key not in outputs:
            continue
        out = outputs[key]
        if isinstance(out, dict) and isinstance(given, dict):
            mark_secrets(out, given)
        elif not isinstance(out, Secret) and has_secret(given):
            outputs[key] = Secret(out)
