"""The real schedulers on a full cluster: two jobs that lock each other out, and gangs that do not.

The nodes are objects, and what an operator makes of a job is played: pods that take a node's CPUs by what they ask for.
Nothing depends on speed: each step waits for the scheduler's own word on every pod.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from infra import operators, stack_plan
from infra.clusters.discovery import Question, read_contents
from infra.config import Stack
from infra.gang_scheduler import patches
from infra.job import pod
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import GANG_CRDS, GANG_SCHEDULER, PODGROUP
from infra.objects.look import Look
from infra.objects.manifest import Manifest
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.test_trainer_v2 import NAMESPACE, Server, assert_kept, is_served
from tests.unit.infra.samples import job_context, stack
from toolchain.images import cluster_images
from toolchain.tools import build, go_modules

pytestmark = pytest.mark.slow(reason="a scheduler to compile, which takes minutes once")

# Each node holds two replicas; each job has three, so that the two nodes hold one job and a part of another.
PER_NODE, REPLICAS = 2, 3
OPEN, LATER = "open", "later"
TAINT = {"key": "trainstack.test/later", "effect": "NoSchedule"}
WHOLE = Plan(crd=True, operator=True, namespaces=(), scheduler=GANG_SCHEDULER, installs_scheduler=True)


@pytest.fixture(scope="module")
def asked() -> Stack:
    return stack(
        operator={"gang": "scheduler-plugins", "namespace": NAMESPACE}, cluster={"namespace": NAMESPACE}
    )


@pytest.fixture(scope="module")
def manifests(asked: Stack) -> list[Manifest]:
    return operators.scheduler_manifests(asked, WHOLE)


@pytest.fixture(scope="module")
def full(manifests: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server of its own with two nodes and both schedulers; ours with the profile that a stack installs."""
    server = ApiServer(tmp_path_factory.mktemp("gangs"))
    server.start()
    try:
        cluster = Cluster(server)
        cluster.define([each for each in manifests if each["kind"] == CRD_KIND])
        for node in (OPEN, LATER):
            cluster.add(node)
        server.start_scheduler("kube-scheduler", f"--kubeconfig={server.kubeconfig}")
        programs = build.build(go_modules.load(cluster_images.SCHEDULER_MODULE))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
            patch.setenv("KUBECONFIG", str(server.kubeconfig))
            _, *words = programs_of(manifests)[GANG_SCHEDULER]["args"]
            server.start_scheduler("scheduler", f"--config={profile(manifests, server)}", *words)
            server.start_controller("controller", "--metricsAddr=0", "--probeAddr=0")
        yield cluster
    finally:
        print(server.logs())
        server.stop()


def programs_of(manifests: list[Manifest]) -> dict[str, Manifest]:
    deployments = [each for each in manifests if each["kind"] == "Deployment"]
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0] for each in deployments
    }


def profile(manifests: list[Manifest], server: ApiServer) -> Path:
    """The file of the stack's ConfigMap, with the way to the API server that a pod would find itself."""
    (configured,) = [each for each in manifests if each["kind"] == "ConfigMap"]
    found = yaml.safe_load(configured["data"][patches.FILE])
    file = server.folder / patches.FILE
    file.write_text(yaml.safe_dump({**found, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}))
    return file


class Cluster:
    """What a test asks of the API server."""

    def __init__(self, server: ApiServer) -> None:
        self.api = server
        self.server = Server(str(server.kubeconfig))
        self.core = client.CoreV1Api(self.server.found.client)

    def define(self, crds: list[Manifest]) -> None:
        extensions = client.ApiextensionsV1Api(self.server.found.client)
        for each in crds:
            self.server.apply(each)
            name = each["metadata"]["name"]
            wait_until(f"{name} is served", lambda name=name: is_served(extensions, name))  # type: ignore[misc]
        self.server.found.resources.invalidate_cache()

    def add(self, node: str) -> None:
        room = {"cpu": str(PER_NODE), "memory": "16Gi", "pods": "20"}
        self.core.create_node({"metadata": {"name": node}})  # type: ignore[arg-type]
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "played"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self.core.patch_node_status(node, {"status": status})
        self.taint(node, [])

    def taint(self, node: str, taints: list[dict[str, str]]) -> None:
        """The server taints a new node until somebody says otherwise."""
        self.core.patch_node(node, {"spec": {"taints": taints or None}})

    def submit(self, job: str, scheduler: str, *, tolerates: bool) -> None:
        """The pods of a job's replicas, and their PodGroup, as the training-operator makes them of the stack's job."""
        tolerations = [{"key": TAINT["key"], "operator": "Exists"}] if tolerates else []
        resources = {"cpu": "1", "memory": "1Gi", "requests": {"cpu": "1"}}
        given = {"name": job, "resources": resources, "pod": {"spec": {"tolerations": tolerations}}}
        (config,) = stack(job=given).jobs
        template = pod.template(config, job_context(scheduler=scheduler), "worker")
        if scheduler:
            least = {"minMember": REPLICAS, "minResources": {"cpu": str(REPLICAS)}}
            metadata = {"name": job, "namespace": NAMESPACE}
            self.server.apply(
                {
                    "apiVersion": PODGROUP.api_version,
                    "kind": PODGROUP.kind,
                    "metadata": metadata,
                    "spec": least,
                }
            )
        # Volumes are the business of other controllers.
        container = {
            key: each for key, each in template["spec"]["containers"][0].items() if key != "volumeMounts"
        }
        spec = {**template["spec"], "containers": [container], "volumes": []}
        for place in range(REPLICAS):
            named = {**template["metadata"], "name": f"{job}-{place}"}
            self.core.create_namespaced_pod(NAMESPACE, {"metadata": named, "spec": spec})  # type: ignore[arg-type]

    def pods(self, job: str) -> list[Any]:
        return list(self.core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={job}").items)

    def bound(self, job: str) -> int:
        return len([each for each in self.pods(job) if each.spec.node_name])

    def said(self, job: str) -> list[str]:
        """What the scheduler says of those that it cannot place; nothing of one that it has not looked at yet."""
        return [
            each.message or each.reason
            for found in self.pods(job)
            for each in (found.status.conditions or [])
            if each.type == "PodScheduled" and each.status == "False"
        ]

    def waits(self, job: str, bound: int) -> bool:
        return (self.bound(job), len(self.said(job))) == (bound, REPLICAS - bound)

    def finish(self, job: str) -> None:
        for each in self.pods(job):
            self.core.patch_namespaced_pod_status(
                each.metadata.name, NAMESPACE, {"status": {"phase": "Succeeded"}}
            )

    def clear(self) -> None:
        self.core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        wait_until("all pods are gone", lambda: not self.core.list_namespaced_pod(NAMESPACE).items)


@pytest.fixture
def cluster(full: Cluster) -> Iterator[Cluster]:
    """Without pods, and with one node that only those may use which tolerate it."""
    full.taint(LATER, [TAINT])
    yield full
    full.clear()


def test_without_gangs_two_jobs_lock_each_other_out(cluster: Cluster) -> None:
    cluster.submit("first", "", tolerates=False)
    wait_until("the first job has the open node", lambda: cluster.waits("first", PER_NODE))
    cluster.submit("second", "", tolerates=True)
    wait_until("the second job has the other", lambda: cluster.waits("second", PER_NODE))
    cluster.taint(LATER, [])
    for job in ("first", "second"):
        wait_until(
            f"the last replica of {job} is refused by both nodes for want of CPUs alone",
            lambda job=job: any("2 Insufficient cpu" in each for each in cluster.said(job)),  # type: ignore[misc]
        )
    assert [cluster.bound("first"), cluster.bound("second")] == [PER_NODE, PER_NODE], "neither is whole"


def test_with_gangs_a_job_starts_whole_or_not_at_all_and_both_end(cluster: Cluster) -> None:
    cluster.submit("first", GANG_SCHEDULER, tolerates=False)
    wait_until("each replica of the first is refused", lambda: cluster.waits("first", 0))
    cluster.submit("second", GANG_SCHEDULER, tolerates=True)
    wait_until("the second starts whole", lambda: cluster.bound("second") == REPLICAS)
    assert cluster.bound("first") == 0, "it holds nothing that it cannot use"
    cluster.taint(LATER, [])
    assert cluster.waits("first", 0), "one CPU is free, and nobody takes it"
    cluster.finish("second")
    wait_until("the first starts whole", lambda: cluster.bound("first") == REPLICAS)


def test_a_pod_without_its_gang_is_not_started(cluster: Cluster) -> None:
    """As an operator that knows nothing of gangs would make it."""
    cluster.submit("alone", GANG_SCHEDULER, tolerates=True)
    wait_until("it starts", lambda: cluster.bound("alone") == REPLICAS)
    (one, *_) = cluster.pods("alone")
    labels = {key: "nobody" if "pod-group" in key else value for key, value in one.metadata.labels.items()}
    metadata = {"name": "stray", "labels": {**labels, "job-name": "stray"}}
    spec = {"schedulerName": GANG_SCHEDULER, "containers": [{"name": "pytorch", "image": "x"}]}
    cluster.core.create_namespaced_pod(NAMESPACE, {"metadata": metadata, "spec": spec})  # type: ignore[arg-type]
    wait_until("it is refused", lambda: bool(cluster.said("stray")))
    assert cluster.bound("stray") == 0


def test_the_server_takes_all_of_it_and_it_keeps_to_the_policies(
    full: Cluster, manifests: list[Manifest], asked: Stack
) -> None:
    for each in manifests:
        kept = full.server.try_out(each)
        if each["kind"] != CRD_KIND:
            assert_kept({key: each[key] for key in each if key != "metadata"}, kept)
    stack_plan.ensure_allowed(asked, manifests)


def test_a_scheduler_of_somebody_elses_is_found(full: Cluster, manifests: list[Manifest]) -> None:
    look = Look(ApiAddress(str(full.api.kubeconfig)), print)
    question = Question(gangs=True)
    nothing = read_contents(look, lambda _: False, question)
    assert (nothing.problem, nothing.schedulers, nothing.gang_definitions) == ("", (), frozenset(GANG_CRDS))
    for each in manifests:
        if each["kind"] == "Deployment":
            full.server.apply(each)
    theirs = read_contents(look, lambda _: False, question)
    assert (theirs.problem, theirs.schedulers) == ("", (GANG_SCHEDULER,))
    ours = read_contents(look, lambda _: True, question)
    assert (ours.schedulers, ours.gang_definitions) == ((), frozenset())
