"""Which fields of an object the state has to encrypt."""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import LAST_APPLIED, nested
from pulumi_standins.kubernetes.values import Object, Secret, has_secret


def mark_secrets(outputs: Object, inputs: Object) -> None:
    """Make secret in the outputs what was secret in the inputs, and all data of a v1/Secret.

    With either, kubectl's copy of the whole object in an annotation is secret, too.

    Maps are entered, so one secret leaf does not encrypt its surroundings; a list with a secret inside becomes
    secret as a whole, because servers may reorder lists.
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
