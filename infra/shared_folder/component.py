"""The dynamic resource for a folder that several nodes share, as a probe has shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pulumi
from kubernetes.client.exceptions import ApiException
from pulumi.dynamic import CreateResult

from infra import volumes
from infra.clusters.cluster import Cluster
from infra.clusters.node_folders import Node, Placement, reached
from infra.config import Stack
from infra.config.errors import paragraph
from infra.config.storage_kinds import StorageKind
from infra.config.training import Dataset
from infra.dynamic import ADDRESS, DynamicResource, Props, Provider, plain_props, show
from infra.job import helper_pods
from infra.job.context import context
from infra.job.run_id import run_id
from infra.objects.retry import brief
from infra.run.reader_pod import MountedClaim
from infra.shared_folder.probe import NotSharedError, Probe


class SharedFolderError(RuntimeError):
    """The nodes do not share the folder. The text is complete: it needs no traceback."""


class SharedFolderProvider(Provider):
    """Nodes that share a folder, as a probe has shown.

    Properties: `kubeconfigPath`, `context`, `namespace`, `image`, `claim`, `mountPath`, `pod`, `placements`, `file`,
    `path`, `instance` (the cluster), `runs`, `nodes`. The probe is repeated after a change of a property of
    `updated_by`, and for a node that is not in `nodes` of the state.
    """

    updated_by = ("instance", "path", "namespace", "claim", "runs", "placements")
    taken_over = ADDRESS

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["path"], looked_at(props))

    def is_outdated(self, olds: Props, news: Props) -> bool:
        return super().is_outdated(olds, news) or not set(news["nodes"]) <= set(olds["nodes"])


def looked_at(props: Props) -> Props:
    """Run the probe. Returns the properties for the state; `nodes` are the probed nodes. Raises SharedFolderError."""
    placements = [Placement(**each) for each in props["placements"]]
    try:
        nodes = Probe(MountedClaim.from_props(props), placements, show).run()
    except NotSharedError as error:
        raise SharedFolderError(refusal(props, str(error))) from None
    except ApiException as error:
        raise SharedFolderError(refusal(props, f"the cluster refuses the check: {brief(error)}")) from None
    return plain_props(props) | {"nodes": nodes}


def refusal(props: Props, found: str) -> str:
    """The error, in the form of a configuration error. `found`: the result of the probe."""
    allowed = f"true if all nodes have one folder in {props['path']}: {found}. No job was started"
    fix = "mount the same file system there on each node; or replace `shared` by `node: NAME`, the node with the folder"
    return paragraph(props["file"], "trainstack:storage.shared", "true", allowed, fix)


class SharedFolder(DynamicResource, provider=SharedFolderProvider):
    """A folder that all nodes see. Output: `nodes`, the probed nodes."""

    nodes: pulumi.Output[list[str]]


def register(
    stack: Stack,
    cluster: Cluster,
    image: pulumi.Output[str],
    datasets: Mapping[str, Dataset | None],
    nodes: Sequence[Node],
    depends_on: list[pulumi.Resource],
) -> list[pulumi.Resource]:
    """Check the folder from each node before a job starts. Returns the check, for which jobs wait; empty if not shared.

    Parameters:
        image: the trainer image's reference, by digest.
        datasets: job's name -> its data set.
        nodes: the known nodes; empty for kind, whose nodes live as long as their cluster.
        depends_on: the resources that must exist before a pod mounts the folder.
    """
    if not stack.storage.shared or stack.storage.kind is not StorageKind.HOST_PATH:
        return []

    def runs(reference: str) -> list[str]:
        return [run_id(job, context(stack, reference, datasets[job.name])) for job in stack.own_jobs]

    placements = [Placement.of(job) for job in stack.own_jobs]
    props = {
        "kubeconfigPath": cluster.kubeconfig_path,
        "context": cluster.context,
        "namespace": stack.cluster.namespace,
        "image": image,
        "claim": stack.claim,
        "mountPath": stack.storage.mount_path,
        "pod": helper_pods.spec_fields(stack.own_jobs, stack.storage.group),
        "placements": [asdict(each) for each in placements],
        "file": stack.file,
        "path": volumes.host_path(stack),
        "instance": cluster.cluster_uid,
        "runs": image.apply(runs),
        "nodes": reached(nodes, placements),
    }
    return [SharedFolder(stack.volume, props, cluster.bound(cluster.provider, depends_on))]
