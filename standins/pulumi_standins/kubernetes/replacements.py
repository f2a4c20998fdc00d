"""Which changes Kubernetes refuses on a living object, so that it must be replaced: rules as data.

Paths are those of pulumi-kubernetes 4.30.0; `*` stands for every element of a list.
"""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import Kind
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.kubernetes.values import Object

Path = tuple[str, ...]


def _paths(*names: str) -> list[Path]:
    return [tuple(name.split(".")) for name in names]


def _below(prefix: str, names: str) -> list[Path]:
    return _paths(*(f"{prefix}.{name}" for name in names.split()))


IDENTITY = _paths("metadata.name", "metadata.namespace")

_CONTAINER = (
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe resources "
    "securityContext stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices "
    "volumeMounts workingDir"
)
_POD = (
    _below(
        "spec",
        "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC "
        "hostNetwork hostPID hostname imagePullSecrets nodeName nodeSelector overhead preemptionPolicy "
        "priority priorityClassName readinessGates restartPolicy runtimeClassName schedulerName "
        "securityContext serviceAccount serviceAccountName shareProcessNamespace subdomain "
        "terminationGracePeriodSeconds volumes",
    )
    + _below("spec.containers.*", _CONTAINER)
    + _below("spec.initContainers.*", _CONTAINER)
)
_VOLUME = _below(
    "spec",
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk "
    "glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos "
    "vsphereVolume",
)
_SELECTOR = _paths("spec.selector")
_STATEFUL_SET = _below(
    "spec", "podManagementPolicy revisionHistoryLimit selector serviceName volumeClaimTemplates"
)
_JOB = _below("spec", "completions parallelism selector template")
_ROLE_BINDING = _paths("roleRef")

_BY_KIND: dict[str, list[Path]] = {
    "apps/v1/DaemonSet": _SELECTOR,
    "apps/v1/Deployment": _SELECTOR,
    "apps/v1/StatefulSet": _STATEFUL_SET,
    "apps/v1beta1/StatefulSet": _STATEFUL_SET,
    "apps/v1beta2/DaemonSet": _SELECTOR,
    "apps/v1beta2/Deployment": _SELECTOR,
    "apps/v1beta2/StatefulSet": _STATEFUL_SET,
    "batch/v1/Job": _JOB,
    "batch/v1beta1/Job": _JOB,
    "batch/v2alpha1/Job": _JOB,
    "policy/v1beta1/PodDisruptionBudget": _paths("spec"),
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1/RoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1alpha1/ClusterRoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1alpha1/RoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1beta1/ClusterRoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1beta1/RoleBinding": _ROLE_BINDING,
    "storage.k8s.io/v1/StorageClass": _paths("parameters", "provisioner"),
    "v1/PersistentVolume": _VOLUME,
    "v1/PersistentVolumeClaim": _below("spec", "accessModes selector storageClassName volumeName"),
    "v1/Pod": _POD,
    "v1/ResourceQuota": _paths("spec.scopes"),
    "v1/Service": _paths("spec.clusterIP"),
}


def paths(kind: Kind, inputs: Object, settings: Settings) -> list[Path]:
    """The paths whose change replaces an object of this kind.

    Data of a ConfigMap or Secret replaces it too, so that pods that read it notice, unless the provider is told
    that they are mutable.
    """
    immutable = inputs.get("immutable") is True
    if str(kind) == "v1/Secret":
        data = _paths("stringData", "data") if immutable or not settings.secret_mutable else []
        return IDENTITY + _paths("type") + data
    if str(kind) == "v1/ConfigMap":
        data = _paths("binaryData", "data") if immutable or not settings.config_map_mutable else []
        return IDENTITY + data
    return IDENTITY + _BY_KIND.get(str(kind), [])
