"""The policies: rules for every object of a stack, for every user who applies it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from infra.guard import rule_scopes
from infra.guard.conditions import (
    Allowed,
    Below,
    Both,
    Bound,
    Condition,
    Contains,
    Either,
    EndsWith,
    Field,
    Is,
    Lists,
    Not,
    Present,
    Unpinned,
    at,
)
from infra.guard.rule_scopes import Scope
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.kinds import title
from infra.objects.manifest import Manifest
from infra.objects.pod_security import POD_SECURITY
from storage.manifests import PREPARES


@dataclass(frozen=True)
class Rule:
    """One policy.

    Parameters:
        scope: the parts of an object that the rule checks.
        condition: must be true for each part.
        demand: the API server's message to a user who breaks the rule.
        problem: the review's message, with the values of the paths in braces, `{container.name}`.
        fix: the fix, in a stack file if possible.
        unless: objects to which the rule does not apply.
    """

    scope: Scope
    condition: Condition
    demand: str
    problem: str
    fix: str
    unless: Condition | None = None

    def problems(self, manifest: Manifest, allowed: Allowed) -> list[str]:
        """The problem of each part that breaks the rule."""
        if manifest["kind"] not in self.scope.kinds:
            return []
        if self.unless and self.unless.holds({"object": manifest}, allowed):
            return []
        parts = [part for part in self.scope.parts(manifest) if not self.condition.holds(part, allowed)]
        roots = {"roots": ", ".join(allowed.roots)}
        return [_filled(self.problem, {**part, "allowed": roots}) for part in parts]

    def cel(self, allowed: Allowed) -> str:
        """The rule as an expression that is true for an object without problems."""
        unless = f"({self.unless.cel(allowed)}) || " if self.unless else ""
        return unless + self.scope.cel(self.condition.cel(allowed))


def _filled(sentence: str, bound: Bound) -> str:
    return re.sub(r"\{([\w.]+)\}", lambda path: str(at(*path[1].split(".")).read(bound)), sentence)


def _limit(name: str) -> Rule:
    return Rule(
        rule_scopes.CONTAINERS,
        Present(at("container", "resources", "limits", name)),
        f"every container needs a {name} limit: resources.limits.{name}",
        f"container {{container.name}} has no {name} limit",
        f"set `trainstack:job: {{resources: {{{name}: …}}}}`, or that container's limits in `job.pod`",
    )


def _ends(key: str) -> Rule:
    return Rule(
        rule_scopes.objects(PYTORCHJOB.kind),
        Present(at("object", "spec", "runPolicy", key)),
        f"a PyTorchJob needs runPolicy.{key}",
        f"runPolicy.{key} is not set",
        f"set `trainstack:job: {{runPolicy: {{{key}: …}}}}`",
    )


def _named_right(key: str) -> Rule:
    return Rule(
        rule_scopes.RIGHTS,
        Not(Lists(at("right", key), "*")),
        f"a role has to list its {key} instead of *",
        f"a rule grants all {key}",
        f"instead of *, list the {key} that are needed",
    )


def _effective(name: str) -> Field:
    """The field `name` of a container's security context; if it is missing there, of its pod's."""
    return Field((("container", "securityContext", name), ("pod", "securityContext", name)))


# The Job that prepares a folder on a node must be root. It and its pods are recognised by their names.
_PREPARES = Either(
    (
        Both((Is(at("object", "kind"), "Job"), EndsWith(at("object", "metadata", "name"), PREPARES))),
        EndsWith(at("object", "metadata", "labels", "batch.kubernetes.io/job-name"), PREPARES),
    )
)
_IMAGE = at("container", "image")
_UNLIKE = "move the folder there, or add its parent to `trainstack:storage: {allowedRoots: […]}`"
_CLAIMED = at("object", "spec", "hostPath", "path")
_MOUNTED = at("volume", "hostPath", "path")

RULES: dict[str, Rule] = {
    "image by digest": Rule(
        rule_scopes.ALL_CONTAINERS,
        Either((Contains(_IMAGE, "@sha256:"), Unpinned(_IMAGE))),
        "every image needs a digest: name@sha256:<digest>",
        "image {container.image} has no digest, so what runs can change without a review",
        "write it as name@sha256:…, which `docker push` prints, or set `trainstack:image: {unpinned: true}`",
    ),
    "CPU limit": _limit("cpu"),
    "memory limit": _limit("memory"),
    "not root": Rule(
        rule_scopes.ALL_CONTAINERS,
        Both((Is(_effective("runAsNonRoot"), True), Not(Is(_effective("runAsUser"), 0)))),
        "no container may run as root: set runAsNonRoot: true, and a runAsUser above 0",
        "container {container.name} may run as root",
        "set runAsNonRoot: true and a runAsUser above 0",
        unless=_PREPARES,
    ),
    "deadline": _ends("activeDeadlineSeconds"),
    "back-off limit": _ends("backoffLimit"),
    "restart policy": Rule(
        rule_scopes.REPLICA_TYPES,
        Present(at("replica", "restartPolicy")),
        "every replica type of a PyTorchJob needs a restartPolicy",
        "a replica type has no restartPolicy",
        "set `trainstack:job: {restartPolicy: OnFailure}`",
    ),
    "models kept": Rule(
        rule_scopes.objects("PersistentVolume"),
        Is(at("object", "spec", "persistentVolumeReclaimPolicy"), "Retain"),
        "a PersistentVolume needs the reclaim policy Retain",
        "reclaim policy {object.spec.persistentVolumeReclaimPolicy} may delete the models",
        "set `trainstack:storage: {reclaimPolicy: Retain}`",
    ),
    "hostPath of a volume": Rule(
        rule_scopes.objects("PersistentVolume"),
        Either((Not(Present(_CLAIMED)), Below(_CLAIMED))),
        "a hostPath has to be below a folder that the stack allows",
        "hostPath {object.spec.hostPath.path} is not below {allowed.roots}",
        _UNLIKE,
    ),
    "hostPath of a pod": Rule(
        rule_scopes.POD_VOLUMES,
        Either((Not(Present(_MOUNTED)), Below(_MOUNTED))),
        "a hostPath has to be below a folder that the stack allows",
        "hostPath {volume.hostPath.path} is not below {allowed.roots}",
        _UNLIKE,
    ),
    "API groups named": _named_right("apiGroups"),
    "resources named": _named_right("resources"),
    "verbs named": _named_right("verbs"),
    "pod security": Rule(
        rule_scopes.objects("Namespace"),
        Present(at("object", "metadata", "labels", f"{POD_SECURITY}/enforce")),
        f"the namespace has to enforce a Pod Security level: label {POD_SECURITY}/enforce",
        "no Pod Security level is enforced",
        f"label the namespace {POD_SECURITY}/enforce: baseline or restricted",
    ),
}
"""Name -> rule."""


@dataclass(frozen=True)
class Violation:
    """An object that breaks a policy: the problem and the fix."""

    object: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}\n  fix: {self.fix}"


def violations(manifests: Iterable[Manifest], allowed: Allowed) -> list[Violation]:
    """Everything that breaks a rule, in the order of the manifests."""
    return [
        Violation(title(manifest), problem, rule.fix)
        for manifest in manifests
        for rule in RULES.values()
        for problem in rule.problems(manifest, allowed)
    ]
