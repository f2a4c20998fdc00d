"""Which kinds have a namespace, also before the cluster or the CRD exists."""

from __future__ import annotations

import threading

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import NoSuchKindError
from pulumi_standins.kubernetes.objects import Kind, is_crd, kind_of, nested
from pulumi_standins.kubernetes.type_tokens import is_known
from pulumi_standins.kubernetes.values import Object

# All built-in kinds without a namespace, by group; other built-in kinds have one.
_CLUSTER_WIDE = {
    "": "ComponentStatus Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "authentication.k8s.io": "SelfSubjectReview TokenReview",
    "authorization.k8s.io": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "StorageVersion",
    "networking.k8s.io": "ClusterCIDR IngressClass IPAddress ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "policy": "PodSecurityPolicy",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass DeviceTaintRule ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
    "storagemigration.k8s.io": "StorageVersionMigration",
}


class Scopes:
    """Remembers the scopes of the custom resources that this program defines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._defined: dict[tuple[str, str], bool] = {}

    def remember(self, obj: Object) -> None:
        """Remember the scope in a CRD of the program: the cluster may not have the CRD yet."""
        if not is_crd(obj):
            return
        group, kind = nested(obj, "spec", "group"), nested(obj, "spec", "names", "kind")
        scope = nested(obj, "spec", "scope")
        if isinstance(group, str) and isinstance(kind, str) and isinstance(scope, str):
            with self._lock:
                self._defined[group, kind] = scope == "Namespaced"

    def is_namespaced(self, obj: Object, client: ApiClient | None) -> bool:
        """Whether the object has a namespace; true for an unknown kind.

        Raises:
            UnreachableError: only the server knows, and it is unreachable.
        """
        kind = kind_of(obj)
        if is_known(kind):
            return kind.kind not in _CLUSTER_WIDE.get(kind.group, "").split()
        with self._lock:
            defined = self._defined.get((kind.group, kind.kind))
        if defined is not None:
            return defined
        return self._served(kind, client)

    def _served(self, kind: Kind, client: ApiClient | None) -> bool:
        if client is None:
            return True
        try:
            return client.endpoint(kind).is_namespaced
        except NoSuchKindError:
            return True
