"""Rules for manifests, as plain functions: preview and review refuse what breaks one."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from infra.objects.manifest import Manifest, title
from infra.objects.pod_security import POD_SECURITY
from storage.manifests import PREPARES


@dataclass(frozen=True)
class Violation:
    """An object that breaks a policy: what is wrong with it, and the way out."""

    object: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}\n  fix: {self.fix}"


@dataclass(frozen=True)
class Rules:
    """What a stack allows itself. `unpinned`: images that may go without a digest."""

    allowed_roots: tuple[str, ...]
    unpinned: frozenset[str] = field(default_factory=frozenset)


Finding = tuple[str, str]
Policy = Callable[[Manifest, Rules], Iterator[Finding]]


def pod_specs(manifest: Manifest) -> list[dict[str, Any]]:
    """Every pod spec in a manifest, whatever its kind."""
    spec = manifest.get("spec", {})
    if manifest["kind"] == "Pod":
        return [spec]
    if manifest["kind"] == "PyTorchJob":
        return [replica["template"]["spec"] for replica in spec["pytorchReplicaSpecs"].values()]
    return [spec["template"]["spec"]] if isinstance(spec.get("template"), dict) else []


def containers(manifest: Manifest) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each container with the spec of its pod."""
    for pod in pod_specs(manifest):
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            yield pod, container


def images_by_digest(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """What runs changes with a review only."""
    for _, container in containers(manifest):
        image = container["image"]
        if "@sha256:" not in image and image not in rules.unpinned:
            yield (
                f"image {image} has no digest, so what runs can change without a review",
                f"write {image}@sha256:… as `docker push` prints it, or `trainstack:image: {{unpinned: true}}`",
            )


def limits_set(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """A replica cannot starve its neighbours."""
    for _, container in containers(manifest):
        limits = container.get("resources", {}).get("limits", {})
        for name in ("cpu", "memory"):
            if name not in limits:
                yield (
                    f"container {container['name']} has no {name} limit",
                    f"set `trainstack:job: {{resources: {{{name}: …}}}}`",
                )


def not_root(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """The Job that prepares a folder on a node has to be root; it says so by its name."""
    if manifest["kind"] == "Job" and manifest["metadata"]["name"].endswith(PREPARES):
        return
    for pod, container in containers(manifest):
        context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
        if not context.get("runAsNonRoot") or context.get("runAsUser") == 0:
            yield (
                f"container {container['name']} may run as root",
                "set runAsNonRoot: true and a runAsUser above 0",
            )


def ends(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """A job says when it is tried again, and when it is given up."""
    if manifest["kind"] != "PyTorchJob":
        return
    policy = manifest["spec"].get("runPolicy", {})
    for key in ("activeDeadlineSeconds", "backoffLimit"):
        if key not in policy:
            yield f"runPolicy.{key} is not set", f"set `trainstack:job: {{runPolicy: {{{key}: …}}}}`"
    for kind, replica in manifest["spec"]["pytorchReplicaSpecs"].items():
        if "restartPolicy" not in replica:
            yield (
                f"replica type {kind} has no restartPolicy",
                "set `trainstack:job: {restartPolicy: OnFailure}`",
            )


def models_kept(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """Deleting a claim deletes no model."""
    if manifest["kind"] == "PersistentVolume":
        policy = manifest["spec"].get("persistentVolumeReclaimPolicy")
        if policy != "Retain":
            yield (
                f"reclaim policy {policy} may delete the models",
                "set `trainstack:storage: {reclaimPolicy: Retain}`",
            )


def host_paths_allowed(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """Pods see no folder of a node but those that are set aside for them."""
    sources = [manifest.get("spec", {})] if manifest["kind"] == "PersistentVolume" else []
    sources += [volume for pod in pod_specs(manifest) for volume in pod.get("volumes", [])]
    for source in sources:
        path = source.get("hostPath", {}).get("path")
        if path and not any(_below(path, root) for root in rules.allowed_roots):
            roots = ", ".join(rules.allowed_roots)
            yield (
                f"hostPath {path} is not below {roots}",
                "move it there, or add its parent to `trainstack:storage: {allowedRoots: […]}`",
            )


def _below(path: str, root: str) -> bool:
    return posixpath.commonpath([posixpath.normpath(path), root]) == root


def no_wildcard_rights(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """Roles name what they grant."""
    if manifest["kind"] not in ("Role", "ClusterRole"):
        return
    for rule in manifest.get("rules") or []:
        for key in ("apiGroups", "resources", "verbs"):
            if "*" in rule.get(key, []):
                yield f"a rule grants every one of {key}", f"list the {key} that are needed instead of *"


def pod_security_labelled(manifest: Manifest, rules: Rules) -> Iterator[Finding]:
    """Each namespace enforces a Pod Security level."""
    if manifest["kind"] == "Namespace" and f"{POD_SECURITY}/enforce" not in manifest["metadata"].get(
        "labels", {}
    ):
        yield "no Pod Security level is enforced", f"label it {POD_SECURITY}/enforce: baseline or restricted"


POLICIES: tuple[Policy, ...] = (
    images_by_digest,
    limits_set,
    not_root,
    ends,
    models_kept,
    host_paths_allowed,
    no_wildcard_rights,
    pod_security_labelled,
)


def violations(manifests: Iterable[Manifest], rules: Rules) -> list[Violation]:
    """Everything that breaks a policy, in the order of the manifests."""
    return [
        Violation(title(manifest), problem, fix)
        for manifest in manifests
        for policy in POLICIES
        for problem, fix in policy(manifest, rules)
    ]
