"""Changes that Kubernetes refuses on an existing object, so that it must be replaced: rules as data.

The paths are from pulumi-kubernetes 4.30.0, for API versions that servers have; `*` stands for every list element.
"""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import Kind

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
    "batch/v1/Job": _JOB,
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": _ROLE_BINDING,
    "rbac.authorization.k8s.io/v1/RoleBinding": _ROLE_BINDING,
    "storage.k8s.io/v1/StorageClass": _paths("parameters", "provisioner"),
    "v1/ConfigMap": _paths("binaryData", "data"),
    "v1/PersistentVolume": _VOLUME,
    "v1/PersistentVolumeClaim": _below("spec", "accessModes selector storageClassName volumeName"),
    "v1/Pod": _POD,
    "v1/ResourceQuota": _paths("spec.scopes"),
    "v1/Secret": _paths("type", "stringData", "data"),
    "v1/Service": _paths("spec.clusterIP"),
}


def paths(kind: Kind) -> list[Path]:
    """The paths whose change replaces an object of this kind.

    Changed data of a ConfigMap or Secret replaces it, too, so that pods that read it are replaced.
    """
    return IDENTITY + _BY_KIND.get(str(kind), [])
