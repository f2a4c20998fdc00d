"""What is asked of an API server for each call, and what becomes of its answers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from infra import paths
from infra.objects import kinds
from infra.objects.cluster_api import JSON, OPERATIONS, PART, ClusterApi
from infra.objects.job_kinds import JOBSET, PYTORCHJOB, TRAINJOB
from infra.objects.kinds import CLAIM, NODE, POD, VOLUME, Kind
from tests.unit.infra.objects.played_api import Request, listed, played

CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"
JOBS = "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs"
LOG = "/api/v1/namespaces/team/pods/a/log?container=c"
SINCE = "2026-01-01T00:00:00+02:00"
MADE = {"metadata": {"name": "a", "namespace": "team"}}
UID = [{"op": "remove", "path": "/spec/claimRef/uid"}]
Call = Callable[[ClusterApi], object]
READS: dict[str, tuple[Call, str]] = {
    "get": (lambda api: api.get(CLAIM, "a", "team"), f"{CLAIMS}/a"),
    "get of none": (lambda api: api.get(VOLUME, "a"), "/api/v1/persistentvolumes/a"),
    "get of a group": (lambda api: api.get(PYTORCHJOB, "a", "team"), f"{JOBS}/a"),
    "get of an odd name": (lambda api: api.get(VOLUME, "a/b"), "/api/v1/persistentvolumes/a%2Fb"),
    "listed": (lambda api: api.listed(PYTORCHJOB, "team"), JOBS),
    "listed everywhere": (lambda api: api.listed(PYTORCHJOB), "/apis/kubeflow.org/v1/pytorchjobs"),
    "listed by label": (
        lambda api: api.listed(CLAIM, "team", labels="a=b,c in (d)"),
        f"{CLAIMS}?labelSelector=a=b,c in (d)",
    ),
    "listed by field": (
        lambda api: api.listed(NODE, fields="metadata.name=a"),
        "/api/v1/nodes?fieldSelector=metadata.name=a",
    ),
    "snapshot": (
        lambda api: api.snapshot(POD, "team", labels="a", fields="type=b"),
        "/api/v1/namespaces/team/pods?labelSelector=a&fieldSelector=type=b",
    ),
    "watched": (
        lambda api: list(api.watched(PYTORCHJOB, "team", "7", 20, labels="a")),
        f"{JOBS}?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=20&labelSelector=a",
    ),
    "read": (lambda api: api.read("/readyz"), "/readyz"),
    "resources": (lambda api: api.resources("kubeflow.org", "v1"), "/apis/kubeflow.org/v1"),
    "preferred_version": (lambda api: api.preferred_version("kueue.x-k8s.io"), "/apis/kueue.x-k8s.io"),
    "log": (
        lambda api: api.log("a", "team", container="c", previous=True, tailLines=20),
        f"{LOG}&previous=true&tailLines=20",
    ),
    "log_stream": (
        lambda api: list(api.log_stream("a", "team", "c")),
        f"{LOG}&follow=true&timestamps=true",
    ),
    "log_stream after a line": (
        lambda api: list(api.log_stream("a", "team", "c", SINCE)),
        f"{LOG}&follow=true&timestamps=true&sinceTime={SINCE}",
    ),
}
"""Name -> call, and where it asks, with its query before it is quoted."""
WRITES: dict[str, tuple[Call, str, Any, Any]] = {
    "create": (lambda api: api.create(CLAIM, MADE), f"POST {CLAIMS}", MADE, JSON),
    "create, only asked": (
        lambda api: api.create(PYTORCHJOB, MADE, dry_run=True),
        *(f"POST {JOBS}?dryRun=All", MADE, JSON),
    ),
    "patch by operations": (
        lambda api: api.patch(VOLUME, "a", UID),
        *("PATCH /api/v1/persistentvolumes/a", UID, OPERATIONS),
    ),
    "patch by a part": (
        lambda api: api.patch(PYTORCHJOB, "a", MADE, "team"),
        *(f"PATCH {JOBS}/a", MADE, PART),
    ),
    "delete": (lambda api: api.delete(CLAIM, "a", "team"), f"DELETE {CLAIMS}/a", None, None),
    "delete before what made it": (
        lambda api: api.delete(PYTORCHJOB, "a", "team", propagation="Foreground"),
        *(f"DELETE {JOBS}/a?propagationPolicy=Foreground", None, None),
    ),
}
"""Name -> call, method and place, body, and what kind that is."""
CALLS: dict[str, tuple[Call, str, Any, Any]] = {
    **{name: (call, f"GET {place}", None, None) for name, (call, place) in READS.items()},
    **WRITES,
}


def test_every_call_has_its_request() -> None:
    public = {name for name in vars(ClusterApi) if not name.startswith("_") and name != "at"}
    assert public == {re.split("[ ,]", name)[0] for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_the_server_is_asked_for(name: str) -> None:
    call, place, body, content = CALLS[name]
    asked: list[Request] = []

    def answer(request: Request) -> object:
        asked.append(request)
        return "a line" if request.name == "log" else {"items": []}

    call(played(answer))
    method, _, url = place.partition(" ")
    path, _, query = url.partition("?")
    given = dict(each.split("=", 1) for each in query.split("&") if each)
    assert asked == [Request(method, path, given, body, content)]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504])
def test_an_answer_that_is_no_success_is_an_error_with_its_status_and_text(name: str, status: int) -> None:
    with pytest.raises(ApiException) as raised:
        CALLS[name][0](played(lambda _: status))
    assert (raised.value.status, raised.value.reason) == (status, f"status {status}")
    assert raised.value.body is not None or name.startswith("log_stream")


@pytest.mark.parametrize("name", CALLS)
def test_what_breaks_the_connection_is_raised(name: str) -> None:
    with pytest.raises(ConnectionResetError):
        CALLS[name][0](played(lambda _: ConnectionResetError()))


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_waited_for_as_long_as_is_said(name: str) -> None:
    """A log that is followed may stand still for hours."""
    asked: list[float | None] = []

    def answer(request: Request) -> object:
        asked.append(request.timeout_s)
        return {"items": []}

    CALLS[name][0](played(answer, timeout_s=5))
    assert asked == [None if name.startswith("log_stream") else 5]


def test_objects_are_as_the_server_has_them() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert played(lambda _: pod).get(POD, "a", "team") == pod
    assert played(lambda _: listed(pod)).listed(POD, "team") == [pod]
    assert played(lambda _: {"items": None}).listed(POD) == []
    assert played(lambda _: '{"loss": 1}').log("a", "team") == '{"loss": 1}'
    assert played(lambda _: b"caf\xe9 loss=1").log("a", "team") == "caf\ufffd loss=1"
    assert b"".join(played(lambda _: "one\ntwo").log_stream("a", "team", "c")) == b"one\ntwo"


KINDS: dict[str, Kind] = {
    **{name: each for name, each in vars(kinds).items() if isinstance(each, Kind)},
    **{each.kind: each for each in (JOBSET, PYTORCHJOB, TRAINJOB)},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_plural_is_formed_as_the_api_does(name: str) -> None:
    assert Kind.of(KINDS[name].kind, KINDS[name].api_version).plural == KINDS[name].plural


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("NetworkPolicy", "networkpolicies"), ("Ingress", "ingresses"), ("StorageClass", "storageclasses")],
)
def test_plurals_of_other_endings(kind: str, plural: str) -> None:
    assert Kind.of(kind, "v1").plural == plural


USED = """
import sys
import urllib3
import infra.dependents, infra.inspection, infra.program, infra.release_volumes, infra.watch
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import POD
from kubernetes import client
closed = client.ApiClient(client.Configuration(host="http://127.0.0.1:9"))
closed.rest_client.pool_manager.connection_pool_kw["retries"] = urllib3.Retry(0)
api = ClusterApi(closed)
try:
    api.get(POD, "a", "b")
except urllib3.exceptions.HTTPError:
    print(*[each for each in sys.modules if each.startswith(("kubernetes.client.api.", "kubernetes.client.models."))])
"""


def test_the_packages_models_are_not_imported() -> None:
    """Their import took a second of every process."""
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, cwd=paths.ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


@pytest.mark.parametrize("module", ["infra.inspection", "infra.release_volumes"])
def test_a_look_at_the_cluster_starts_without_pulumis_sdk(module: str) -> None:
    """`make up` and `make status` look without it; the SDK's import would be a third of their work."""
    told = f"import sys, {module}; print(*[each for each in sys.modules if each.startswith('pulumi')])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, cwd=paths.ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_none_of_the_packages_classes_is_used() -> None:
    used = {
        (file.name, name)
        for file in (paths.ROOT / "infra").rglob("*.py")
        for name in re.findall(r"\bclient\.(\w+Api)\b", file.read_text())
    }
    assert not used
