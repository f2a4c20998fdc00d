"""Section `cluster`: where the training runs."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from infra.config.names import AbsolutePath, DnsLabel, DnsName
from infra.config.section import Natural, Section, Whole, refusal


class ClusterKind(StrEnum):
    KIND = "kind"
    MICROK8S = "microk8s"
    EXISTING = "existing"


class PodSecurity(StrEnum):
    """Pod Security level that a namespace of ours enforces; `restricted` is warned about and audited in any case."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class Addon(StrEnum):
    DNS = "dns"
    HOSTPATH_STORAGE = "hostpath-storage"
    GPU = "gpu"
    REGISTRY = "registry"


ONLY_FOR: dict[str, ClusterKind] = {
    "name": ClusterKind.KIND,
    "workers": ClusterKind.KIND,
    "api_server_port": ClusterKind.KIND,
    "channel": ClusterKind.MICROK8S,
    "addons": ClusterKind.MICROK8S,
    "kubeconfig": ClusterKind.EXISTING,
    "context": ClusterKind.EXISTING,
}


class ClusterConfig(Section):
    kind: ClusterKind = Field(default=ClusterKind.KIND, description="kind, microk8s or existing")
    namespace: DnsLabel = Field(default="kubeflow", description="a namespace's name", examples=["kubeflow"])
    pod_security: PodSecurity = Field(default=PodSecurity.BASELINE, description="a Pod Security level")
    name: DnsLabel | None = Field(
        default=None,
        description="the kind cluster's name, by default trainstack-<stack>",
        examples=["trainstack-dev"],
    )
    workers: Natural = Field(
        default=0,
        le=20,
        description="kind nodes beside the control plane, a whole number from 0 to 20",
        examples=[2],
    )
    api_server_port: Whole | None = Field(
        default=None, ge=1, le=65535, description="a free port of this machine, 1 to 65535", examples=[6443]
    )
    channel: str = Field(
        default="1.34/stable",
        pattern=r"^\d+\.\d+(-strict)?/(stable|candidate|beta|edge)$",
        description="a channel of the microk8s snap, <version>/<risk>",
        examples=["1.34/stable"],
    )
    addons: tuple[Addon, ...] = Field(
        default=(Addon.DNS, Addon.HOSTPATH_STORAGE),
        description="a list of MicroK8s add-ons",
        examples=["[dns, hostpath-storage]"],
    )
    kubeconfig: AbsolutePath | None = Field(
        default=None,
        description="absolute path of a kubeconfig file; without it KUBECONFIG or ~/.kube/config is read",
        examples=["/home/you/.kube/config"],
    )
    context: DnsName | None = Field(
        default=None,
        description="a context of that kubeconfig, by default its current one",
        examples=["kind-test"],
    )

    @model_validator(mode="after")
    def _fits_the_kind(self) -> ClusterConfig:
        for field in sorted(self.model_fields_set):
            only = ONLY_FOR.get(field)
            if only is not None and only is not self.kind:
                key = type(self).model_fields[field].alias
                fix = f"remove {key}, or set `kind: {only}`"
                raise refusal(f"{key} only where kind is {only}", fix, str(key), getattr(self, field))
        return self

    def name_for(self, stack: str) -> str:
        """The name of the cluster that `stack` makes: the one given, else trainstack-<stack>."""
        return self.name or f"trainstack-{stack}"
