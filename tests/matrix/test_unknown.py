"""Nothing is destroyed, taken or passed because it could not be looked at: each verb with each fault, on a real server.

tests/unit/infra/test_guards.py feeds the guards their faults one by one. Here a fault comes on the way between a whole
command and an API server that works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from infra.objects.kinds import title
from standins.tests.apiserver import ApiServer
from standins.tests.flaky import FlakyProxy, changed_config
from tests.e2e.waiting import wait_until
from tests.matrix.hurried_program import ANSWER_S
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject, others_pod
from tests.matrix.verbs import VERBS

NAMESPACE, CLAIM, VOLUME, SECRET = (
    "unlooked",
    "trainstack-matrix-models",
    "trainstack-matrix-models",
    "mnist-env",
)
STANDING: dict[str, Any] = {"cluster.namespace": NAMESPACE}
LATE_S = ANSWER_S + 2
FAULTS: dict[str, int | str] = {
    "403": 403,
    "500": 500,
    "503": 503,
    "time-out": "no answer after",
    "reset": "reset after",
    "slow": "",
    "truncated": "truncated after",
    "login page": "login page after",
}
"""Name -> what becomes of an answer; a slow one comes LATE_S late."""


@dataclass(frozen=True)
class Scene:
    """Something that may not be touched, and the question that tells of it.

    Parameters:
        asked: how the paths end that are asked for.
        named: what a refusal has to name.
        verbs: those that ask it.
        changes: what waits in the stack file.
        in_time: verbs that wait longer for an answer than a slow one takes here.
    """

    asked: tuple[str, ...]
    named: str
    verbs: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    in_time: tuple[str, ...] = ()


SCENES = {
    "a claim that somebody's pod mounts is to be replaced": Scene(
        (f"/namespaces/{NAMESPACE}/pods",),
        "pods",
        ("up", "preview", "drift", "down"),
        {"storage.request": "5Gi"},
    ),
    "somebody's Secret has a name that the stack wants": Scene(
        (f"/secrets/{SECRET}",),
        "secret",
        ("up", "preview", "drift"),
        {"job.env": {"TOKEN": {"secure": True}}},
    ),
    "somebody's objects are in a namespace that is to go": Scene(
        (f"/namespaces/{NAMESPACE}/services",),
        "services",
        ("up", "preview", "drift", "down"),
        {"cluster.namespace": "elsewhere"},
    ),
    "an object of the stack's own is there": Scene(
        (f"/persistentvolumeclaims/{CLAIM}", "/persistentvolumeclaims"),
        "persistentvolumeclaim",
        tuple(VERBS),
        in_time=("down", "status"),
    ),
}
CLAIMED, WANTED, LEFT, OWN = SCENES
IN_CI = {
    ("up", CLAIMED, "slow"),
    ("up", LEFT, "time-out"),
    ("preview", WANTED, "403"),
    ("preview", OWN, "truncated"),
    ("down", LEFT, "500"),
    ("down", OWN, "reset"),
    ("status", OWN, "503"),
    ("drift", WANTED, "login page"),
}
"""Each verb, each scene and each fault; the others are of the full suite."""
ALLOWED_STAY = {LEFT: f"services in namespace {NAMESPACE}", CLAIMED: f"pods in namespace {NAMESPACE}"}
"""Scene -> what a user may not list: that counts as others' and stays, so that few rights take a stack down."""
CASES = [
    (verb, scene, fault)
    for (scene, asked), fault in product(SCENES.items(), FAULTS)
    for verb in asked.verbs
    if not (verb == "down" and fault == "403" and scene in ALLOWED_STAY)
    and not (fault == "slow" and verb in asked.in_time)
]


@pytest.fixture(scope="module")
def proxy(api_server: ApiServer) -> Iterator[FlakyProxy]:
    made = FlakyProxy(api_server)
    made.no_answer_s, made.authorization = LATE_S, f"Bearer {api_server.token}"
    yield made
    made.close()


@pytest.fixture(scope="module")
def project(
    api_server: ApiServer,
    operator: PlayedOperator,
    proxy: FlakyProxy,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AppliedProject]:
    """A stack that is up, with a proxy on its way to the server, and somebody else's objects beside it."""
    folder = tmp_path_factory.mktemp("unknown")
    kubeconfig = folder / "kubeconfig.yaml"
    kubeconfig.write_text(changed_config(api_server, cluster={"server": proxy.url}))
    made = AppliedProject(folder, kubeconfig)
    made.environment["PULUMI_STANDINS_PATIENCE"] = "0.2"
    made.use_hurried_program()
    made.look_at(api_server.kubeconfig)
    core: Any = made.core
    try:
        made.up(**STANDING)
        core.create_namespaced_pod(NAMESPACE, others_pod("theirs", CLAIM))
        core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": SECRET}})
        made.settled()
        wait_until(
            "their pod runs",
            lambda: core.read_namespaced_pod("theirs", NAMESPACE).status.phase == "Running",
        )
        yield made
    finally:
        proxy.failing.clear()
        proxy.slow.clear()
        core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        core.delete_namespaced_secret(SECRET, NAMESPACE)
        made.destroy()
        # What was left to others.
        if NAMESPACE in (each.metadata.name for each in core.list_namespace().items):
            core.delete_namespace(NAMESPACE)
        if VOLUME in (each.metadata.name for each in core.list_persistent_volume().items):
            core.delete_persistent_volume(VOLUME)


def there(project: AppliedProject) -> dict[str, tuple[str, str]]:
    """The stack's objects and those beside them: uid, and the version that any change of an object makes another."""
    core: Any = project.core
    secret = project.connection.sanitize_for_serialization(core.read_namespaced_secret(SECRET, NAMESPACE))
    found = {**project.objects(), "Secret": secret}
    return {
        key: (each["metadata"]["uid"], each["metadata"]["resourceVersion"])
        for key, each in found.items()
        if NAMESPACE in (each["metadata"].get("namespace"), each["metadata"]["name"])
        or each["metadata"]["name"] == VOLUME
    }


def known(project: AppliedProject) -> dict[str, bool]:
    """URN of what the state holds -> whether a deletion would leave it."""
    file = project.folder.parent / "state" / ".pulumi" / "stacks" / "trainstack" / f"{project.stack}.json"
    held = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    return {each["urn"]: bool(each.get("retainOnDelete")) for each in held}


def hurt(proxy: FlakyProxy, scene: str, fault: str) -> None:
    for end in SCENES[scene].asked:
        if fault == "slow":
            proxy.slow[end] = LATE_S
        else:
            proxy.failing[end] = FAULTS[fault]


def test_ci_has_each_verb_scene_and_fault() -> None:
    assert set(CASES) >= IN_CI
    verbs, scenes, faults = (set(each) for each in zip(*IN_CI, strict=True))
    assert (verbs, scenes, faults) == (set(VERBS), set(SCENES), set(FAULTS))


@pytest.mark.parametrize(
    ("verb", "scene", "fault"),
    [
        pytest.param(
            *case,
            marks=() if case in IN_CI else pytest.mark.slow(reason="a run of Pulumi each; CI has a sample"),
        )
        for case in CASES
    ],
)
def test_what_could_not_be_looked_at_is_not_touched(
    verb: str,
    scene: str,
    fault: str,
    project: AppliedProject,
    proxy: FlakyProxy,
    capfd: pytest.CaptureFixture[str],
) -> None:
    project.configured(**{**STANDING, **SCENES[scene].changes})
    before = there(project), known(project)
    hurt(proxy, scene, fault)
    try:
        ended = VERBS[verb](project)
    finally:
        proxy.failing.clear()
        proxy.slow.clear()
    told = "\n".join([ended.told, *capfd.readouterr()])
    assert (there(project), known(project)) == before
    assert ended.status != 0, told
    assert SCENES[scene].named in told.lower(), told
    if verb == "status":
        assert "unknown" in told, told
        assert "(see docs/runbooks/" in told, told
    else:
        assert "no drift" not in told
        assert "fix: " in told, told


@pytest.mark.slow(reason="two destructions, and the last tests of the stack; CI has the other 403s")
@pytest.mark.parametrize("scene", ALLOWED_STAY)
def test_down_leaves_what_it_may_not_look_at(
    scene: str, project: AppliedProject, proxy: FlakyProxy, capfd: pytest.CaptureFixture[str]
) -> None:
    """First a namespace, which is not the stack's own any more then; thus a claim is the only one asked about."""
    core: Any = project.core
    with suppress(ApiException):
        core.delete_namespaced_pod("theirs", NAMESPACE, grace_period_seconds=0)
    project.up(**STANDING)
    stays = {
        LEFT: [f"Namespace/{NAMESPACE}"],
        CLAIMED: [f"PersistentVolume/{VOLUME}", f"PersistentVolumeClaim/{NAMESPACE}/{CLAIM}"],
    }[scene]
    before = project.objects()
    hurt(proxy, scene, "403")
    try:
        ended = VERBS["down"](project)
    finally:
        proxy.failing.clear()
    shown = capfd.readouterr().out
    assert ended.status == 0, ended.told
    assert f"left in the cluster, because others use it: {', '.join(stays)}\n" in shown
    assert f"used by: unknown: this user may not list {ALLOWED_STAY[scene]}" in shown
    after = project.objects()
    kept = {title(each): each["metadata"] for each in after.values() if title(each) in stays}
    assert sorted(kept) == sorted(stays)
    for each in before.values():
        if found := kept.get(title(each)):
            assert (found["uid"], "deletionTimestamp" in found) == (each["metadata"]["uid"], False)
    core.read_namespaced_secret(SECRET, NAMESPACE)
    assert not [each for each in after if each.startswith("PyTorchJob/")]
