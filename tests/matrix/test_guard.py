"""Whoever applies an object that breaks a rule with kubectl: refused, or warned, by a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import stack_plan
from infra.config import Stack, from_raw
from infra.guard import admission
from infra.guard.policy_rules import RULES
from infra.objects.adoption import Ownership, survey
from infra.objects.api import ApiAddress
from infra.objects.kinds import title
from infra.objects.look import Look
from infra.objects.stack_state import StackState
from standins.tests.apiserver import ApiServer
from tests.e2e.test_published import MANIFESTS
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject, with_changes
from tests.unit.infra.guard.bad_manifests import BAD, good, pod_of, running

NAMESPACE = "guarded"
DENY: dict[str, Any] = {
    "cluster": {
        "kind": "existing",
        "namespace": NAMESPACE,
        "guard": "deny",
        "podSecurity": "restricted",
        "quota": {"cpu": 20, "memory": "20Gi", "gpu": 8, "pods": 20},
        "limitRange": {"cpu": 2, "memoryRatio": 4},
    },
    "job.egress": [
        {"port": 443},
        {"port": 2049, "cidr": "192.0.2.0/24"},
        {"port": 2379, "namespace": "etcd"},
    ],
}
WARN: dict[str, Any] = {"cluster.guard": "warn", "storage.volume": "published-models"}
PATIENCE_S = 120
# This server knows no TrainJobs; of those the policies judge the Jobs and pods.
PUBLISHED = sorted(file for file in MANIFESTS.glob("*.yaml") if "kind: PyTorchJob" in file.read_text())
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kubectl(api_server: ApiServer) -> Kubectl:
    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", str(api_server.kubeconfig), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True)

    return run


def stack_of(changes: dict[str, Any]) -> Stack:
    return from_raw("matrix", with_changes(changes), "stacks/Pulumi.matrix.yaml")


def applied(kubectl: Kubectl, each: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    verb = "apply"
    if each["kind"] == "Namespace":
        verb = "replace"
    else:  # not that of the stack
        each = {**each, "metadata": {**each["metadata"], "name": f"{each['metadata']['name']}-by-hand"}}
    return kubectl(verb, *options, "--filename", "-", stdin=yaml.safe_dump(each))


def up(
    folder: Path, api_server: ApiServer, kubectl: Kubectl, changes: dict[str, Any], says: str
) -> Iterator[AppliedProject]:
    """A stack that is up, once its policy is in force: an API server reads policies every now and then."""
    made = AppliedProject(folder, api_server.kubeconfig)
    made.up(**changes)
    bad = BAD["image of a Pod by tag"].of(stack_of(changes))
    try:
        wait_until(
            f"the policy says {says!r} of {bad}",
            lambda: says in applied(kubectl, bad, "--dry-run=server").stderr,
            PATIENCE_S,
        )
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def denied(
    api_server: ApiServer,
    operator: PlayedOperator,
    kubectl: Kubectl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AppliedProject]:
    yield from up(tmp_path_factory.mktemp("deny"), api_server, kubectl, DENY, "denied request")


@pytest.fixture(scope="module")
def warned(
    denied: AppliedProject,
    api_server: ApiServer,
    kubectl: Kubectl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AppliedProject]:
    """Beside the other one, in a namespace of its own: the two have one name, and share the cluster."""
    yield from up(tmp_path_factory.mktemp("warn"), api_server, kubectl, WARN, "Warning: Validation failed")


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_refused_with_its_rule(denied: AppliedProject, kubectl: Kubectl, case: str) -> None:
    bad = BAD[case]
    done = applied(kubectl, bad.of(stack_of(DENY)))
    assert done.returncode == 1, done.stdout
    assert admission.name(stack_of(DENY)) in done.stderr
    assert f"denied request: {RULES[bad.rule].demand}\n" in done.stderr


def test_every_rule_has_a_bad_manifest() -> None:
    assert {bad.rule for bad in BAD.values()} == RULES.keys()


def test_what_keeps_to_the_rules_passes_without_a_warning(denied: AppliedProject, kubectl: Kubectl) -> None:
    for kind, each in good(stack_of(DENY)).items():
        done = applied(kubectl, each, "--dry-run=server")
        assert (done.returncode, done.stderr) == (0, ""), kind


def test_the_level_of_the_namespace_refuses_a_pod_of_root(denied: AppliedProject, kubectl: Kubectl) -> None:
    pod = pod_of(good(stack_of(DENY))["PyTorchJob"])
    rooted = {**pod, "securityContext": {"runAsUser": 0}}
    done = applied(kubectl, running("Pod", NAMESPACE, rooted))
    assert done.returncode == 1
    assert 'violates PodSecurity "restricted' in done.stderr


def test_a_container_for_debugging_is_held_to_the_rules(denied: AppliedProject, kubectl: Kubectl) -> None:
    pod = good(stack_of(DENY))["Pod"]
    assert applied(kubectl, pod).returncode == 0
    debug = {"name": "debug", "image": "busybox:latest", "securityContext": {"runAsNonRoot": True}}
    safe = pod_of(pod)["containers"][0]["securityContext"]
    patch = {"spec": {"ephemeralContainers": [{**debug, "securityContext": safe}]}}
    where = ("pod", f"{pod['metadata']['name']}-by-hand", "--namespace", NAMESPACE)
    done = kubectl(
        *("patch", *where, "--subresource=ephemeralcontainers", "--type=strategic"),
        *("--patch", json.dumps(patch)),
    )
    assert done.returncode == 1
    assert RULES["image by digest"].demand in done.stderr
    assert kubectl("label", *where, "team=a").returncode == 0, "another change asks for nothing"
    kubectl("delete", *where, "--wait=false", "--now")


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        (
            {"limits": {"cpu": "1", "memory": "5Gi"}, "requests": {"memory": "1Gi"}},
            "memory max limit to request ratio per Container is 4, but provided ratio is 5",
        ),
        ({"limits": {"cpu": "30", "memory": "1Gi"}}, "exceeded quota: trainstack-matrix"),
    ],
)
def test_a_pod_beyond_the_limits_of_its_namespace_is_refused(
    denied: AppliedProject, kubectl: Kubectl, resources: dict[str, Any], told: str
) -> None:
    pod = pod_of(good(stack_of(DENY))["Pod"])
    pod["containers"][0]["resources"] = resources
    done = applied(kubectl, running("Pod", NAMESPACE, pod))
    assert done.returncode == 1
    assert told in done.stderr


def test_a_provisioners_volume_is_its_own(denied: AppliedProject, kubectl: Kubectl) -> None:
    volume = BAD["models may be deleted"].of(stack_of(DENY))
    volume["metadata"] = {"name": "provisioned", "annotations": {admission.PROVISIONED: "example.com/x"}}
    assert applied(kubectl, volume, "--dry-run=server").returncode == 0
    del volume["metadata"]["annotations"]
    assert applied(kubectl, volume, "--dry-run=server").returncode == 1, "claimed from the namespace"
    volume["spec"]["claimRef"]["namespace"] = "elsewhere"
    assert applied(kubectl, volume, "--dry-run=server").returncode == 0, "claimed from another one"


def test_another_namespace_hears_nothing(denied: AppliedProject, kubectl: Kubectl) -> None:
    for kind in ("Pod", "Role"):
        (bad, *_) = [each for each in BAD.values() if each.kind == kind]
        found = bad.of(stack_of(DENY))
        found["metadata"]["namespace"] = "default"
        done = applied(kubectl, found, "--dry-run=server")
        assert (done.returncode, done.stderr) == (0, "")


def test_the_server_finds_no_fault_with_the_expressions(denied: AppliedProject, kubectl: Kubectl) -> None:
    """It checks them against the types of all kinds, and tells in the policy's status when it has."""
    policy = ("validatingadmissionpolicy", admission.name(stack_of(DENY)))

    def status() -> dict[str, Any]:
        return dict(json.loads(kubectl("get", *policy, "--output", "json").stdout).get("status", {}))

    wait_until("the server has looked at them", lambda: "observedGeneration" in status(), PATIENCE_S)
    assert status().get("typeChecking", {}) == {}


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.stem)
def test_published_manifests_pass_with_warnings(warned: AppliedProject, kubectl: Kubectl, file: Path) -> None:
    """They, and the pods that an operator makes of them. By dry runs: the played operator takes no GPUs."""
    text = file.read_text().replace("IMAGE", "trainer:latest")
    told = kubectl("apply", "--dry-run=server", "--filename", "-", stdin=text)
    assert told.returncode == 0, told.stderr
    (job,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "PyTorchJob"]
    of_pod = applied(kubectl, running("Pod", "kubeflow", pod_of(job)), "--dry-run=server")
    assert of_pod.returncode == 0, of_pod.stderr
    for rule in ("image by digest", "CPU limit", "memory limit"):
        assert RULES[rule].demand in told.stderr, rule
        assert RULES[rule].demand in of_pod.stderr, rule
    assert RULES["deadline"].demand in told.stderr


def test_the_two_stacks_keep_their_own_policies(
    warned: AppliedProject, denied: AppliedProject, kubectl: Kubectl
) -> None:
    warned.up("--expect-no-changes", **WARN)
    denied.up("--expect-no-changes", **DENY)
    listed = kubectl("get", "validatingadmissionpolicybindings", "--output", "json")
    found = {each["metadata"]["name"]: each["spec"] for each in json.loads(listed.stdout)["items"]}
    assert {name: each["validationActions"] for name, each in found.items()} == {
        f"trainstack-matrix.{NAMESPACE}": ["Deny", "Audit"],
        "trainstack-matrix.kubeflow": ["Warn", "Audit"],
    }


def test_all_that_guards_is_found_again_by_whoever_has_lost_the_state(
    denied: AppliedProject, api_server: ApiServer
) -> None:
    stack = stack_of(DENY)
    of_stack = stack_plan.of(stack, stack_plan.reviewed(stack))
    planned = [each.manifest for each in of_stack if each.phase == stack_plan.GUARD]
    nobody = Ownership(StackState(), None, own_cluster=False)
    found = survey(Look(ApiAddress(str(api_server.kubeconfig)), print), planned, nobody)
    assert [title(each) for each in found.others] == [title(each) for each in planned]
    assert len(planned) == 5, "policy, binding, quota, limit range and the job's network policy"


@pytest.mark.slow(reason="two more updates of a stack; the matrix changes the key, too")
def test_a_guard_that_is_taken_back_leaves_nothing(denied: AppliedProject, kubectl: Kubectl) -> None:
    without = {**DENY, "cluster": {**DENY["cluster"], "guard": "none"}}
    denied.up(**without)
    listed = kubectl(
        "get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--output", "name"
    )
    assert not [name for name in listed.stdout.split() if name.endswith(f".{NAMESPACE}")]
    denied.up(**DENY)
