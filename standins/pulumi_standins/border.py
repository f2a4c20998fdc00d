"""The border: what the stand-ins support, what they create without a wait, and what needs Pulumi's own plugins.

Supported: what trainstack's program and its examples register, what the Kubernetes programs in Python of Pulumi's own
examples use, and what the records in tests/ hold. A test compares the tables of docs/behaviour.md with this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Side(StrEnum):
    """On which side of the border something lies."""

    CARRIED = "as there"
    WARNED = "created without a wait, with a warning"
    REFUSED = "refused"


def _sides(carried: str, refused: str, *, between: str = " ") -> dict[str, Side]:
    """The side of each name in the two texts, whose names are separated by `between`."""
    return {
        name.strip(): side
        for names, side in ((carried, Side.CARRIED), (refused, Side.REFUSED))
        for name in names.split(between)
    }


TYPES = _sides(
    "built-in kinds, custom resources, `CustomResourceDefinition`; `...Patch`",
    "`...List`; `helm.v3.Release`; `helm.v3.Chart`; `helm.v4.Chart`; `yaml.ConfigFile`; `yaml.ConfigGroup`; "
    "`yaml.v2.ConfigFile`; `yaml.v2.ConfigGroup`; `kustomize.Directory`; `kustomize.v2.Directory`",
    between=";",
)
NOT_AWAITED = {"networking.k8s.io/v1/Ingress", "v1/ReplicationController"}
"""Kinds, as `apiVersion/Kind`, for which only the real plugin waits. awaiting/rules.py has the kinds of both."""

ANNOTATIONS = _sides(
    "pulumi.com/autonamed pulumi.com/deletionPropagationPolicy pulumi.com/patchForce pulumi.com/replaceUnready "
    "pulumi.com/skipAwait pulumi.com/timeoutSeconds pulumi.com/waitFor",
    "helm.sh/hook pulumi.com/patchFieldManager",
)
OPTIONS = _sides(
    "cluster clusterIdentifier context deleteUnreachable enablePatchForce enableServerSideApply "
    "kubeClientSettings.timeout kubeconfig namespace suppressDeprecationWarnings suppressHelmHookWarnings "
    "upsertExistingObjects",
    "alwaysRender enableConfigMapMutable enableSecretMutable enableServerSideApply=false helmReleaseSettings "
    "kubeClientSettings.burst kubeClientSettings.qps renderYamlToDirectory skipUpdateUnreachable strictMode",
)
"""Arguments of `kubernetes.Provider`, also allowed in the stack's configuration, as the engine spells them."""
ENVIRONMENT = {
    "PULUMI_K8S_AWAIT_ALL": "true",
    "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE": "true",
    "PULUMI_K8S_ENABLE_SECRET_MUTABLE": "true",
    "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY": "false",
    "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE": "true",
}
"""Variables with their refused value. Others set a supported option, or ask for what the stand-in does anyway."""
LANGUAGE_HOST = _sides(
    "programs in a virtual environment, `toolchain: pip` or `toolchain: uv`, by option or by lock; `pulumi install`; "
    "`pulumi about` except its list of packages; dynamic providers",
    "`toolchain: poetry`, by option or by lock; `typechecker`; `--attach-debugger`; code generation; packing; linking; "
    "components and plugins in Python",
    between=";",
)
HOST = "language host"


def refusal(what: str, plugin: str = "kubernetes plugin") -> str:
    """The message about something beyond the border."""
    return f"{what} needs Pulumi's own {plugin}; if that {plugin} can be downloaded, remove pulumi-standins from PATH"


def not_awaited(kind: str) -> str:
    """The warning about an object for which the stand-in does not wait."""
    return f"{kind} is created without a wait: waiting for it needs Pulumi's own kubernetes plugin"


def is_refused_annotation(name: str) -> bool:
    """Whether an object with this annotation is refused."""
    return ANNOTATIONS.get("helm.sh/hook" if name.startswith("helm.sh/hook") else name) is Side.REFUSED


def refused_type(token: str) -> str:
    """The refusal of a type's or function's token; empty if it is supported."""
    module = token.partition(":")[2].partition("/")[0].partition(":")[0]
    return refusal(token) if module in ("helm", "helm.sh", "kustomize", "yaml") else ""


def refused_options(given: Mapping[str, object]) -> dict[str, str]:
    """The refusals of a provider's options, by name; parts of an option are spelled `option.part`.

    An option that has its default value, such as `alwaysRender: false`, is not refused.
    """
    found = {}
    for name, value in given.items():
        text = str(value).lower()
        side = OPTIONS.get(f"{name}={text}") or OPTIONS.get(name)
        if side is None:
            found[name] = refusal(f"the option {name}, which the SDK 4.30.0 does not have,")
        elif side is Side.REFUSED and (
            text not in ("", "false", "none", "{}") or f"{name}={text}" in OPTIONS
        ):
            found[name] = refusal(
                f"the option {name}" + (f" = {text}" if f"{name}={text}" in OPTIONS else "")
            )
    return found
