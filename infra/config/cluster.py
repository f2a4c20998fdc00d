"""Section `cluster`: where the training runs."""

from __future__ import annotations

from enum import StrEnum

from pydantic import model_validator

from infra.cluster_kinds import USUAL, ClusterKind, only_for
from infra.config.limits import LimitRange, Quota
from infra.config.names import AbsolutePath, DnsLabel
from infra.config.queues import QueueConfig
from infra.config.section import Natural, Outcome, Section, Whole, ensure_kind_has_keys, refusal, setting


class PodSecurity(StrEnum):
    """Pod Security level that the stack's namespaces enforce. They warn about and audit what `restricted` refuses."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class Guard(StrEnum):
    """What the API server does with an object in the jobs' namespace that breaks a policy, for every user."""

    NONE = "none"
    WARN = "warn"
    DENY = "deny"


class Addon(StrEnum):
    """Add-ons of MicroK8s that a stack may ask for."""

    DNS = "dns"
    HOSTPATH_STORAGE = "hostpath-storage"
    GPU = "gpu"
    REGISTRY = "registry"


# The published example manifests use this namespace. They have no limits, no deadline and no digest.
PUBLISHED_NAMESPACE = "kubeflow"
POLICIES_SINCE = (1, 30)
MOVES = (
    "The existing cluster itself stays: the stack moves to another cluster. The stack's objects are deleted from the "
    "old cluster, and files stay on the old nodes."
)
NAMES = (
    "The key chooses no cluster: a value that does not match the cluster of the kubeconfig is refused. If kubeconfig "
    "and key are changed to the same new cluster, the stack moves there, and the old cluster stays."
)


class ClusterConfig(Section):
    """The cluster. Some keys are for one kind only, and are refused with another kind."""

    kind: ClusterKind = setting(
        about="Where the stack trains: a kind or MicroK8s cluster that it creates, or an existing cluster.",
        default=USUAL,
        changing=Outcome.CLUSTER_REPLACED,
    )
    namespace: DnsLabel = setting(
        about="Namespace of the jobs, claims and pods; created if missing.",
        default="kubeflow",
        allowed="a namespace's name",
        examples=["kubeflow"],
        changing=Outcome.VOLUME_REPLACED,
    )
    pod_security: PodSecurity = setting(
        about=(
            "Pod Security level that the stack's namespaces enforce; the API server also warns of pods that break "
            "`restricted`."
        ),
        default=PodSecurity.BASELINE,
        changing=Outcome.IN_PLACE,
    )
    guard: Guard | None = setting(
        about=(
            "What the API server does with an object in the jobs' namespace that breaks one of the stack's "
            "[policies](review.md#policies), also with an object that somebody applies by hand. Default: warn in a "
            "cluster that the stack creates (none if its Kubernetes is older than 1.30), none in an existing cluster."
        ),
        default=None,
        changing=Outcome.IN_PLACE,
    )
    quota: Quota | None = setting(about="What all pods of the namespace may use together.", default=None)
    limit_range: LimitRange | None = setting(
        about="Default CPU and memory of a container, and how far its memory limit may exceed its request.",
        default=None,
    )
    queue: QueueConfig | None = setting(
        about="The share of the cluster that Kueue gives to all jobs of the namespace: see [Queues](kueue.md).",
        default=None,
        allowed="a mapping with localQueues and flavors",
        examples=["{localQueues: [training], flavors: [{nominalQuota: {cpu: 8, memory: 32Gi}}]}"],
    )
    name: DnsLabel | None = setting(
        about="Name of the cluster; default: trainstack-<stack>.",
        default=None,
        allowed="a DNS label",
        examples=["trainstack-dev"],
        changing=Outcome.CLUSTER_REPLACED,
    )
    workers: Natural = setting(
        about="Number of worker nodes besides the control plane; with 0, the control plane runs the pods.",
        default=0,
        le=20,
        allowed="a whole number from 0 to 20",
        examples=[2],
        changing=Outcome.CLUSTER_REPLACED,
    )
    api_server_port: Whole | None = setting(
        about="Port of the cluster's API server on this machine; default: a free one.",
        default=None,
        ge=1,
        le=65535,
        allowed="a free port of this machine, 1 to 65535",
        examples=[6443],
        changing=Outcome.CLUSTER_REPLACED,
    )
    channel: str = setting(
        about="Snap channel that MicroK8s is installed from.",
        default="1.34/stable",
        pattern=r"^\d+\.\d+(-strict)?/(stable|candidate|beta|edge)$",
        allowed="a channel of the microk8s snap, <version>/<risk>",
        examples=["1.34/stable"],
        changing=Outcome.IN_PLACE,
    )
    addons: tuple[Addon, ...] = setting(
        about="Add-ons of MicroK8s; with `registry`, images are pushed instead of imported.",
        default=(Addon.DNS, Addon.HOSTPATH_STORAGE),
        examples=["[dns, hostpath-storage]"],
        changing=Outcome.IN_PLACE,
    )
    kubeconfig: AbsolutePath | None = setting(
        about="Kubeconfig file of the cluster; default: the file that kubectl reads.",
        default=None,
        allowed="an absolute path",
        examples=["/home/you/.kube/config"],
        changing=Outcome.CLUSTER_REPLACED,
        note=MOVES,
    )
    context: str | None = setting(
        about="Context of the kubeconfig; default: the current one.",
        default=None,
        min_length=1,
        allowed="a context's name, as the kubeconfig has it",
        examples=["kind-test"],
        changing=Outcome.CLUSTER_REPLACED,
        note=MOVES,
    )
    server: str | None = setting(
        about="URL of the API server; a kubeconfig with another URL is refused.",
        default=None,
        pattern=r"^https?://\S+$",
        allowed="a URL, as the kubeconfig has it",
        examples=["https://10.0.0.1:6443"],
        changing=Outcome.CLUSTER_REPLACED,
        note=NAMES,
    )
    id: str | None = setting(
        about="Id of the cluster: the uid of its namespace kube-system; a cluster with another id is refused.",
        default=None,
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        allowed="what `kubectl get namespace kube-system --output jsonpath={.metadata.uid}` prints",
        examples=["3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13"],
        changing=Outcome.CLUSTER_REPLACED,
        note=NAMES,
    )

    @model_validator(mode="after")
    def _fits_the_kind(self) -> ClusterConfig:
        ensure_kind_has_keys(self, self.kind, only_for)
        return self

    @model_validator(mode="after")
    def _guards_what_it_may(self) -> ClusterConfig:
        if self.guard in (Guard.WARN, Guard.DENY) and not self.serves_policies:
            allowed = "none for Kubernetes older than 1.30, which has no ValidatingAdmissionPolicy"
            raise refusal(allowed, "write `guard: none`, or a newer channel", "guard", self.guard.value)
        if self.guard is not Guard.DENY:
            return self
        if self.namespace == PUBLISHED_NAMESPACE:
            allowed = (
                f"a namespace other than {PUBLISHED_NAMESPACE} with `guard: deny`: the published example manifests run "
                f"in {PUBLISHED_NAMESPACE}, and the guard would refuse them"
            )
            raise refusal(allowed, "write for example `namespace: team`", "namespace", self.namespace)
        if self.pod_security is not PodSecurity.RESTRICTED:
            fix = f"write `podSecurity: {PodSecurity.RESTRICTED}`, or `guard: {Guard.WARN}`"
            raise refusal("restricted with `guard: deny`", fix, "podSecurity", self.pod_security.value)
        return self

    @property
    def serves_policies(self) -> bool:
        """Whether the API server has ValidatingAdmissionPolicies (since 1.30), as far as the stack file tells."""
        version = self.channel.partition("/")[0].removesuffix("-strict").split(".")
        return "channel" not in self.kind.traits.keys or tuple(map(int, version)) >= POLICIES_SINCE

    @property
    def guards(self) -> Guard:
        """The guard in the stack file; without it, the default for this kind of cluster."""
        if self.guard:
            return self.guard
        return Guard.WARN if self.kind.is_ours and self.serves_policies else Guard.NONE

    def named(self, stack: str) -> dict[str, str]:
        """The keys of the stack file that say which cluster of its kind `stack` uses, with their values."""
        given = {"kubeconfig": self.kubeconfig, "context": self.context, "server": self.server, "id": self.id}
        name = {"name": self.name_for(stack)} if "name" in self.kind.traits.keys else {}
        return name | {key: value for key, value in given.items() if value}

    def name_for(self, stack: str) -> str:
        """The name of the cluster that `stack` creates: the given name, else trainstack-<stack>."""
        return self.name or f"trainstack-{stack}"
