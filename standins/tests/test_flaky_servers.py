"""Servers that are busy, flaky or restarting."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.apiserver import ApiServer
from standins.tests.conftest import client_of
from standins.tests.driver import CallError, Driver, Object, Resource
from standins.tests.flaky import FlakyProxy, changed_config
from standins.tests.meanwhile import as_soon_as_possible, merge
from standins.tests.samples import annotated, config_map, definition

pytestmark = pytest.mark.apiserver


@pytest.fixture
def flaky(api_server: ApiServer, proxy: FlakyProxy) -> Iterator[Driver]:
    """A provider behind the proxy."""
    with Driver(kubeconfig=changed_config(api_server, cluster={"server": proxy.url})) as running:
        yield running


@pytest.fixture
def flaky_with(
    api_server: ApiServer, proxy: FlakyProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float], Driver]]:
    """Makes providers behind the proxy whose patience is so many seconds, and whose pauses are short."""
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._LONGEST_PAUSE", 0.1)
    with contextlib.ExitStack() as stack:

        def make(patience: float) -> Driver:
            monkeypatch.setenv("PULUMI_STANDINS_PATIENCE", str(patience))
            config = changed_config(api_server, cluster={"server": proxy.url})
            return stack.enter_context(Driver(kubeconfig=config))

        yield make


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", [403, 429, 503, "drop", "lose"])
def test_passing_faults_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, namespace: str, fault: int | str
) -> None:
    proxy.faults = {method: [fault] for method in ("GET", "POST", "DELETE")}
    made = flaky.create(config_map(namespace))
    assert flaky.read(made) is not None
    flaky.delete(made)
    assert flaky.read(made) is None
    assert proxy.requests.count("POST") == (1 if fault == "lose" else 2), "what is there is not made again"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("before", [0, 1], ids=["taking over", "applying"])
@pytest.mark.parametrize("fault", [403, 429, 503, "drop", "lose"])
def test_updates_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, client: ApiClient, namespace: str, fault: int | str, before: int
) -> None:
    """The first update of an object sends two patches: who owns its fields, then the change."""
    made = flaky.create(config_map(namespace, a="1"))
    wanted = config_map(namespace, a="1")
    wanted["metadata"]["labels"] = {"edited": "yes"}
    proxy.faults = {"PATCH": [*["pass"] * before, fault]}
    flaky.update(made, wanted)
    live = client.get(Kind("", "v1", "ConfigMap"), namespace, "it")
    assert live["metadata"]["labels"] == {"edited": "yes"}
    (entry,) = live["metadata"]["managedFields"]
    assert entry["manager"] == made.outputs["__fieldManager"], "and it has become the field's only owner"
    assert proxy.requests.count("PATCH") >= 3


@pytest.mark.parametrize("fault", [403, 429, 503, "drop", "lose"])
def test_replaced_definitions_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, namespace: str, fault: int | str
) -> None:
    wanted = definition(f"{namespace}.example.com")
    made = flaky.create(wanted)
    wanted["metadata"]["labels"] = {"edited": "yes"}
    proxy.faults = {"PUT": [fault]}
    assert flaky.update(made, wanted).outputs["metadata"]["labels"] == {"edited": "yes"}
    flaky.delete(made)


def test_a_server_that_has_not_read_its_roles_yet_is_waited_for(
    flaky_with: Callable[[float], Driver], proxy: FlakyProxy, namespace: str
) -> None:
    """It says 403 to everybody and everything, /version included, for some seconds after its start."""
    proxy.faults = {"GET": [403] * 8, "POST": [403]}
    flaky = flaky_with(60)
    made = flaky.create(config_map(namespace))
    proxy.faults = {"GET": [403] * 5}
    assert flaky.read(made) is not None


def test_a_refusal_is_believed_when_others_are_answered(
    flaky: Driver, proxy: FlakyProxy, namespace: str
) -> None:
    proxy.faults = {"POST": [403] * 10}
    with pytest.raises(CallError, match="the server answered 403"):
        flaky.create(config_map(namespace))
    assert proxy.requests.count("POST") == 2, "once more, in case that it had just started"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_stays_busy_is_given_up_with_its_own_words(
    flaky_with: Callable[[float], Driver], proxy: FlakyProxy, client: ApiClient, namespace: str, status: int
) -> None:
    flaky = flaky_with(0.5)
    proxy.faults = {"POST": [status] * 1000}
    with pytest.raises(CallError, match=f"the server answered {status}") as refused:
        flaky.create(config_map(namespace))
    assert refused.value.partial is None
    assert not [item for item in config_maps(client, namespace) if item == "it"]
    assert proxy.requests.count("POST") > 1


def config_maps(client: ApiClient, namespace: str) -> list[str]:
    listing = client.list(Kind("", "v1", "ConfigMap"), namespace)
    return [item["metadata"]["name"] for item in listing["items"]]


def test_watches_that_end_at_once_are_not_opened_without_end() -> None:
    """So does a proxy whose server is away, or a server that ends every watch."""

    class Ended:
        watches = 0

        def list(self, *_: object, **__: object) -> dict[str, Any]:
            return {"items": [], "metadata": {"resourceVersion": "1"}}

        def watch(self, *_: object, **__: object) -> Ended:
            self.watches += 1
            return self

        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter([])

        def close(self) -> None:
            pass

    ended = Ended()
    kind, until = Kind("", "v1", "ConfigMap"), time.monotonic() + 2
    assert not list(follow(ended, kind, "default", until=until, cancelled=threading.Event()))  # type: ignore[arg-type]
    assert 1 < ended.watches < 10


OPERATIONS: dict[str, Callable[[Driver, Resource, Object], object]] = {
    "check": lambda driver, made, wanted: driver.check(wanted, old=made),
    "diff": lambda driver, made, wanted: driver.plan(made, annotated(wanted, replaceUnready="true")),
    "create": lambda driver, made, wanted: driver.create(renamed(wanted), name="other"),
    "preview": lambda driver, made, wanted: driver.create(renamed(wanted), name="other", preview=True),
    "read": lambda driver, made, wanted: driver.read(made),
    "update": lambda driver, made, wanted: driver.update(made, annotated(wanted, other="x")),
    "delete": lambda driver, made, wanted: driver.delete(made),
}


def renamed(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": obj["metadata"]["name"] + "-other"}}


def made_for(operations: Iterable[str], driver: Driver, namespace: str) -> dict[str, tuple[Resource, Object]]:
    made = {}
    for operation in operations:
        wanted = config_map(namespace, a="1")
        wanted["metadata"]["name"] = operation
        made[operation] = driver.create(wanted, name=operation), wanted
    return made


def test_every_operation_waits_for_a_server_that_is_away_and_says_so_once(
    api_server: ApiServer, driver: Driver, namespace: str
) -> None:
    made = made_for(OPERATIONS, driver, namespace)
    waited = annotated(config_map(namespace), waitFor="jsonpath={.data.late}=yes")
    api_server.stop_server()
    try:
        with ThreadPoolExecutor(max_workers=10) as pool:
            running = {name: pool.submit(act, driver, *made[name]) for name, act in OPERATIONS.items()}
            connected = pool.submit(Driver, kubeconfig=str(api_server.kubeconfig))
            running["wait"] = pool.submit(driver.create, waited, name="wait", timeout=600)
            time.sleep(3)
            unfinished = {name for name, future in running.items() if not future.done()}
            api_server.start_server()
            api_server.wait_until_ready(time.monotonic() + 600)
            path = f"/api/v1/namespaces/{namespace}/configmaps/it"
            put_late(api_server, path)
            for future in running.values():
                future.result(timeout=600)
            connected.result(timeout=600).provider.stop()
    finally:
        if api_server._server.poll() is not None:
            api_server.start_server()
            api_server.wait_until_ready(time.monotonic() + 600)
    assert unfinished >= running.keys() - {"check", "diff"}, (
        "these have no question that is not answered already"
    )
    away = [line for line in driver.log if "does not answer, waiting for it" in line]
    back = [line for line in driver.log if "answers again after" in line]
    assert (len(away), len(back)) == (1, 1), driver.log


def put_late(api_server: ApiServer, path: str) -> None:
    """What the wait is for, as soon as its object is there."""
    as_soon_as_possible(lambda: merge(client_of(api_server), path, {"data": {"late": "yes"}}))


def test_a_server_that_stays_away_ends_every_operation_and_changes_nothing(
    api_server: ApiServer, driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_STANDINS_PATIENCE", "1")
    made = made_for(OPERATIONS, driver, namespace)
    asking = [name for name in OPERATIONS if name not in ("check", "diff")]
    with Driver(kubeconfig=str(api_server.kubeconfig)) as impatient:
        api_server.stop_server()
        try:
            for name in asking:
                with pytest.raises(CallError, match="refused") as failed:
                    OPERATIONS[name](impatient, *made[name])
                assert failed.value.partial is None, "nothing was sent, so the state stays as it is"
        finally:
            api_server.start_server()
            api_server.wait_until_ready(time.monotonic() + 600)
    for resource, _ in made.values():
        assert driver.read(resource) == resource


@pytest.mark.parametrize("is_discovered", [True, False], ids=["kind known", "kind asked for"])
def test_a_proxy_that_says_404_does_not_make_objects_go(
    flaky: Driver, proxy: FlakyProxy, namespace: str, is_discovered: bool
) -> None:
    """Only the API server knows what is gone; a load balancer without a route says 404 about everything."""
    made = flaky.create(config_map(namespace, a="1"))
    for method, act in (("GET", flaky.read), ("DELETE", flaky.delete)):
        if not is_discovered:
            assert flaky.provider._client is not None
            flaky.provider._client.forget()
        proxy.faults = {"GET": [404] * 10, method: [404] * 10}
        with pytest.raises(CallError, match="404"):
            act(made)
    proxy.faults = {}
    assert flaky.read(made) == made


def test_an_object_of_somebody_else_is_not_adopted_after_a_lost_answer(
    flaky: Driver,
    proxy: FlakyProxy,
    driver: Driver,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both create the same name; the second's first request is lost before the server sees it."""
    monkeypatch.setattr("pulumi_standins.kubernetes.posting._CLOCKS_DIFFER_SECONDS", 0.0)
    driver.create(config_map(namespace))
    time.sleep(2)  # creation times have whole seconds
    proxy.faults = {"POST": ["drop"]}
    with pytest.raises(CallError, match="already exists"):
        flaky.create(config_map(namespace))


def test_a_wait_survives_a_restart_of_the_server(
    api_server: ApiServer, driver: Driver, namespace: str
) -> None:
    waited = annotated(config_map(namespace), waitFor="jsonpath={.data.late}=yes")
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(driver.create(waited, timeout=600)))
    thread.start()
    time.sleep(2)
    api_server.stop_server()
    api_server.start_server()
    api_server.wait_until_ready(time.monotonic() + 600)
    put_late(api_server, f"/api/v1/namespaces/{namespace}/configmaps/it")
    thread.join(timeout=600)
    assert result, "the wait ended with the restart"
    assert result[0].outputs["data"]["late"] == "yes"
