"""Every verb meets every kind of failure: the operation converges, or its error leaves state and cluster in step."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from pulumi_standins.kubernetes import failures, values
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.failures import Outcome
from pulumi_standins.kubernetes.objects import kind_of, name_of, namespace_of

from standins.tests.apiserver import ApiServer
from standins.tests.driver import CallError, Driver, Object, Resource, urn_of
from standins.tests.faulty import FAULTS, LATE_STATUSES, PASSED_ON, STATUSES, Route
from standins.tests.flaky import FlakyProxy, changed_config
from standins.tests.meanwhile import meanwhile
from standins.tests.samples import MERGE_PATCH, annotated, config_map, definition

pytestmark = pytest.mark.apiserver

SECOND = '{"timeout": 1}'
LONG = 600.0
SHORT = 0.5
TRIES = 20
"""On a busy machine another request may meet its own time-out first, and the provider gives up before the failure."""


@dataclass
class Case:
    """One provider on a route of its own, with one object.

    Parameters:
        wanted: what the object is to become.
        made: the object's resource, where there is one before the failure.
    """

    driver: Driver
    route: Route
    client: ApiClient
    wanted: Object
    made: Resource | None = None

    def be_patient(self, seconds: float) -> None:
        """Wait so long for a server that is away, from now on."""
        assert self.driver.provider._client is not None
        self.driver.provider._client.transport.patience.seconds = seconds

    def fail(self, **faults: str) -> None:
        """Let the verbs fail for ever, and give up soon."""
        self.route.faults = {verb: [fault] * 1000 for verb, fault in faults.items()}
        self.be_patient(SHORT)

    def recover(self) -> None:
        """No more faults."""
        self.route.faults = {}
        self.be_patient(LONG)

    def live(self) -> Object | None:
        """The object in the cluster, or None."""
        named = self.made.outputs if self.made else self.wanted
        try:
            return self.client.get(kind_of(named), namespace_of(named), name_of(named))
        except ApiError as error:
            if error.is_missing:
                return None
            raise


def labelled(obj: Object) -> Object:
    changed = copy.deepcopy(obj)
    changed["metadata"]["labels"] = {"edited": "yes"}
    return changed


def get(case: Case) -> Resource | None:
    assert case.made is not None
    return case.driver.read(case.made)


def post(case: Case) -> Resource:
    return case.driver.create(case.wanted)


def update(case: Case) -> Resource:
    assert case.made is not None
    return case.driver.update(case.made, case.wanted)


def delete(case: Case) -> None:
    assert case.made is not None
    case.driver.delete(case.made)


def wait(case: Case) -> Resource:
    """The object is created without what it is waited for, which comes while the watch is open or fails."""
    return case.driver.create(case.wanted, timeout=60)


OPERATIONS: dict[str, Callable[[Case], Resource | None]] = {
    "GET": get,
    "POST": post,
    "PATCH": update,
    "PUT": update,
    "DELETE": delete,
    "WATCH": wait,
}


def prepare(verb: str, number: int, namespace: str, case: Case) -> None:
    """Make what the operation needs; the object's name has the number, so that cases share a namespace."""
    wanted = config_map(namespace, a="1")
    wanted["metadata"]["name"] = f"it-{verb.lower()}-{number}"
    if verb == "PUT":
        wanted = definition(f"n{number}.{namespace}.example.com")
    if verb == "WATCH":
        wanted = annotated(wanted, waitFor="jsonpath={.data.late}=yes")
    # Discovery is part of another verb's failures.
    case.driver.check(wanted)
    assert case.driver.provider._client is not None
    case.driver.provider._client.endpoint(kind_of(wanted))
    case.wanted = wanted
    if verb in ("GET", "PATCH", "PUT", "DELETE"):
        case.made = case.driver.create(wanted)
    if verb in ("PATCH", "PUT"):
        case.wanted = labelled(wanted)


def come_late(case: Case, over: threading.Event) -> None:
    """What the wait is for happens a while after the object is there, and not once the wait is over."""
    path = f"/api/v1/namespaces/{namespace_of(case.wanted)}/configmaps/{name_of(case.wanted)}"
    while case.live() is None or not case.route.taken:
        if over.wait(0.05):
            return
    case.client.transport.request("PATCH", path, body={"data": {"late": "yes"}}, content_type=MERGE_PATCH)


@pytest.fixture
def cases(
    api_server: ApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Case]]:
    """Makes cases; pauses are short."""
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._FIRST_PAUSE", 0.02)
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._LONGEST_PAUSE", 0.2)
    monkeypatch.setattr("pulumi_standins.kubernetes.transport._LONGEST_SILENCE", 1.0)
    proxy = FlakyProxy(api_server)
    made: list[Case] = []

    def make() -> Case:
        config = changed_config(api_server, cluster={"server": proxy.url})
        driver = Driver(kubeconfig=config, kubeClientSettings=SECOND)
        made.append(Case(driver, Route(driver, proxy), client, {}))
        made[-1].be_patient(LONG)
        return made[-1]

    yield make
    for case in made:
        case.driver.provider.stop()
        case.route.close()
    proxy.close()


def side_by_side(run: Callable[[str, int], None]) -> None:
    """Run for every fault at once: most of the time passes in pauses. All failures are reported."""
    with ThreadPoolExecutor(max_workers=len(FAULTS)) as pool:
        futures = {fault: pool.submit(run, fault, number) for number, fault in enumerate(FAULTS)}
    failed = {fault: repr(future.exception()) for fault, future in futures.items() if future.exception()}
    assert not failed


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", OPERATIONS)
def test_a_failure_that_passes_is_survived(cases: Callable[..., Case], namespace: str, verb: str) -> None:
    every = {fault: cases() for fault in FAULTS}

    def run(fault: str, number: int) -> None:
        case = every[fault]
        prepare(verb, number, namespace, case)
        before = case.live()
        case.route.faults = {verb: [fault, fault]}
        with ThreadPoolExecutor(max_workers=1) as side:
            over = threading.Event()
            if verb == "WATCH":
                side.submit(come_late, case, over)
            try:
                resource = OPERATIONS[verb](case)
            finally:
                over.set()
        assert case.route.taken, "the failure was met"
        assert_in_step(case, verb, resource, before)

    side_by_side(run)


def assert_in_step(case: Case, verb: str, resource: Resource | None, before: Object | None) -> None:
    live = case.live()
    if verb == "DELETE":
        assert live is None
        return
    assert live is not None
    assert resource is not None
    assert resource.outputs["metadata"]["uid"] == live["metadata"]["uid"], (
        "the state has the object that is there"
    )
    if before is not None:
        assert live["metadata"]["uid"] == before["metadata"]["uid"], "and it is still the same"
    assert case.driver.plan(resource, case.wanted).action == "same"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("verb", [verb for verb in OPERATIONS if verb != "WATCH"])
def test_a_failure_that_stays_ends_in_an_error_and_the_next_run_converges(
    cases: Callable[..., Case], namespace: str, verb: str
) -> None:
    """What the engine keeps after the error is what the next update starts from: with a refresh, and without."""
    every = {fault: cases() for fault in FAULTS}

    def run(fault: str, number: int) -> None:
        case = every[fault]
        prepare(verb, number, namespace, case)
        before = case.live()
        case.fail(**{verb: fault})
        kept = case.made
        for _ in range(TRIES):
            try:
                kept = OPERATIONS[verb](case)
            except CallError as error:
                if error.partial is not None:
                    kept = resource_of(error.partial, case)
                if not case.route.taken:
                    continue
            break
        assert case.route.taken, "the failure was met"
        case.recover()
        if verb == "DELETE":
            if kept is not None:
                case.driver.delete(kept)
            assert case.live() is None
            return
        assert_in_step(case, verb, next_run(case, kept, refresh=number % 2 == 0), before)

    side_by_side(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("then", ["refresh", "update", "delete"])
def test_a_creation_that_nobody_could_confirm_is_settled_by_the_next_run(
    cases: Callable[..., Case], namespace: str, then: str
) -> None:
    """The request is sent, and the server is away from then on: the object may be there or not."""
    every = {fault: cases() for fault in FAULTS}
    unconfirmed = []

    def run(fault: str, number: int) -> None:
        case = every[fault]
        prepare("POST", number, namespace, case)
        case.fail(POST=fault, GET="refused")
        with pytest.raises(CallError) as failed:
            case.driver.create(case.wanted)
        kept = resource_of(failed.value.partial, case) if failed.value.partial else None
        if kept is None:
            assert case.live() is None, "what is there is in the state"
        else:
            unconfirmed.append(fault)
        case.recover()
        if kept is not None and then == "delete":
            case.driver.delete(kept)
            assert case.live() is None
            return
        assert_in_step(case, "POST", next_run(case, kept, refresh=then == "refresh"), None)

    side_by_side(run)
    assert set(PASSED_ON) | set(LATE_STATUSES) <= set(unconfirmed)


def test_a_creation_that_is_cancelled_while_nobody_can_confirm_it_stays_in_the_state(
    cases: Callable[..., Case], namespace: str
) -> None:
    """Ctrl-C while the server is waited for, which has made the object and could not say so."""
    case, other = cases(), cases()
    prepare("POST", 0, namespace, case)
    case.route.faults = {"POST": ["502 after"], "GET": ["refused"] * 1000}

    def cancel() -> None:
        other.client.get(kind_of(case.wanted), namespace, name_of(case.wanted))
        case.driver.provider.stop()

    meanwhile(cancel)
    with pytest.raises(CallError) as cancelled:
        case.driver.create(case.wanted)
    other.wanted = case.wanted
    kept = resource_of(cancelled.value.partial, case)
    assert_in_step(other, "POST", next_run(other, kept, refresh=True), None)


def test_an_unconfirmed_creation_takes_nothing_of_somebody_else(
    cases: Callable[..., Case], namespace: str
) -> None:
    """While the outcome was unknown, somebody else made an object of that name."""
    case = cases()
    prepare("POST", 0, namespace, case)
    case.fail(POST="502", GET="refused")
    with pytest.raises(CallError, match="the next update or refresh finds out") as failed:
        case.driver.create(case.wanted)
    case.recover()
    theirs = copy.deepcopy(case.wanted)
    theirs["data"] = {"somebody": "else"}
    case.client.create(theirs)
    kept = resource_of(failed.value.partial, case)
    assert case.driver.read(kept) is None, "it is not ours, so the state drops it"
    with pytest.raises(CallError, match="already exists"):
        case.driver.update(kept, case.wanted)
    case.driver.delete(kept)
    live = case.live()
    assert live is not None
    assert live["data"] == {"somebody": "else"}


def resource_of(partial: Any, case: Case) -> Resource:
    """What the engine keeps of an operation that went wrong."""
    outputs = values.decode(partial.properties)
    return Resource(urn_of(case.wanted, "it"), partial.id, outputs["__inputs"], outputs)


def next_run(case: Case, kept: Resource | None, *, refresh: bool) -> Resource:
    """As the engine does it; an object that was not there after the refresh is created."""
    if kept is not None and refresh:
        kept = case.driver.read(kept)
    if kept is None:
        return case.driver.create(case.wanted)
    if "uid" not in kept.outputs["metadata"]:
        return case.driver.update(kept, case.wanted)
    return case.driver.apply(kept, case.wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", ["drop", *STATUSES])
def test_the_first_contact_is_as_patient(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A provider that is configured while the server is away waits for it."""
    monkeypatch.setenv("PULUMI_STANDINS_PATIENCE", "600")
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._LONGEST_PAUSE", 0.1)
    proxy = FlakyProxy(api_server)
    proxy.faults = {"GET": [int(fault) if fault.isdigit() else fault] * 3}
    with Driver(kubeconfig=changed_config(api_server, cluster={"server": proxy.url})) as driver:
        assert driver.provider._client is not None
    proxy.close()


def test_the_lists_have_every_fault() -> None:
    """A status that is tried again has both of its rows, and none is there twice."""
    assert {f"{status}" for status in failures._PASSING} == set(STATUSES)
    unknown = [
        str(status) for status, (outcome, _) in failures._PASSING.items() if outcome is Outcome.UNKNOWN
    ]
    assert {f"{status} after" for status in unknown} == set(LATE_STATUSES)
    assert len(FAULTS) == len(set(FAULTS))
