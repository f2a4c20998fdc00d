"""The rules as a ValidatingAdmissionPolicy, and the binding of this policy to the jobs' namespace.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

from infra.config import Stack
from infra.config.cluster import Guard
from infra.config.operator import OperatorApi, Queueing
from infra.guard import rule_scopes
from infra.guard.conditions import Allowed, text
from infra.guard.policy_rules import RULES
from infra.image import inputs
from infra.kueue.patches import REPOSITORY as KUEUE
from infra.objects.labels import NAME_OF_NAMESPACE, STACK, stack_labels
from infra.objects.manifest import Manifest
from infra.trainer_controller.patches import REPOSITORIES as TRAINERS
from infra.training_operator import patches

API = "admissionregistration.k8s.io/v1"
# A provisioner sets this annotation on its volumes: their storage class decides their reclaim policy and their place.
PROVISIONED = "pv.kubernetes.io/provisioned-by"
ACTIONS = {Guard.WARN: ["Warn", "Audit"], Guard.DENY: ["Deny", "Audit"]}
OPERATOR = "ghcr.io/kubeflow/training-v1/training-operator"


def allowed(stack: Stack, unpinned: frozenset[str] = frozenset()) -> Allowed:
    """The exceptions of `stack`: upstream's operator and our init image have only a tag if they are not built here.

    Parameters:
        unpinned: further images that need no digest.
    """
    given = {stack.image.reference} if stack.image.reference and stack.image.unpinned else set()
    # MicroK8s imports an archive under its tag, which the hash of the image's inputs makes unique.
    imported = [inputs.REPOSITORY] if stack.cluster.kind.imports_images else []
    kueue = (KUEUE,) if stack.operator.queue is Queueing.KUEUE else ()
    tagged = (*kueue, *imported)
    if stack.operator.api is OperatorApi.V2:
        return Allowed(stack.storage.allowed_roots, unpinned | given, (*TRAINERS, *tagged))
    return Allowed(stack.storage.allowed_roots, unpinned | given | {patches.INIT_IMAGE}, (OPERATOR, *tagged))


def name(stack: Stack) -> str:
    """The name of policy and binding. Each stack has its own, also if stacks share a cluster or a namespace."""
    return f"trainstack-{stack.name}.{stack.cluster.namespace}"


def manifests(stack: Stack) -> list[Manifest]:
    """Policy and binding; none if the API server does not enforce the rules."""
    action = stack.cluster.guards
    return [] if action is Guard.NONE else [policy(stack), binding(stack, ACTIONS[action])]


def policy(stack: Stack) -> Manifest:
    """All rules as one policy. It checks an object at its creation, and when a field of the rules changes."""
    lenient = allowed(stack)
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name(stack), "labels": stack_labels(stack.name)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": _resources()},
            "matchConditions": [
                {"name": "ours", "expression": _is_ours(stack)},
                {"name": "changed", "expression": _is_changed()},
            ],
            "variables": [
                {"name": name, "expression": expression}
                for name, expression in rule_scopes.variables().items()
            ],
            "validations": [
                {"expression": rule.cel(lenient), "message": rule.demand} for rule in RULES.values()
            ],
        },
    }


def binding(stack: Stack, actions: list[str]) -> Manifest:
    """Binds the policy to the jobs' namespace.

    Parameters:
        actions: the reaction to an object that breaks a rule.
    """
    entry = {"key": NAME_OF_NAMESPACE, "operator": "In", "values": [stack.cluster.namespace]}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name(stack), "labels": stack_labels(stack.name)},
        "spec": {
            "policyName": name(stack),
            "validationActions": actions,
            "matchResources": {"namespaceSelector": {"matchExpressions": [entry]}},
        },
    }


def _resources() -> list[Manifest]:
    by_group: dict[tuple[str, str], list[str]] = {}
    for kind in rule_scopes.KINDS.values():
        by_group.setdefault((kind.group, kind.version), []).append(kind.plural)
    by_group["", "v1"].append("pods/ephemeralcontainers")
    return [
        {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": ["CREATE", "UPDATE"],
            "resources": plurals,
        }
        for (group, version), plurals in by_group.items()
    ]


def _is_ours(stack: Stack) -> str:
    """An expression that is true for the stack's objects: the binding also matches others' cluster-wide objects.

    A volume belongs to the namespace of its claim.
    """
    claimed = (
        f"dyn(object).?spec.?claimRef[?{text('namespace')}] == optional.of({text(stack.cluster.namespace)})"
    )
    made = f"dyn(object).?metadata.?annotations[?{text(PROVISIONED)}].hasValue()"
    marked = f"dyn(object).?metadata.?labels[?{text(STACK)}] == optional.of({text(stack.name)})"
    cluster_wide = 'request.kind.kind in ["PersistentVolume", "ClusterRole"]'
    return f"!({cluster_wide}) || {marked} || ({claimed} && !{made})"


def _is_changed() -> str:
    same = " && ".join(f"dyn(object).?{field} == dyn(oldObject).?{field}" for field in ("spec", "rules"))
    return f'request.operation != "UPDATE" || request.kind.kind == "Namespace" || !({same})'
