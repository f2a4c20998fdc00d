"""No guard lets anything pass that it could not look at: each is fed every fault."""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, decision, dependents, inspection, paths, stack_plan
from infra.clusters import discovery, foreign_objects, selection
from infra.clusters.discovery import ClusterContents, Question
from infra.clusters.existing import component
from infra.clusters.existing.kubeconfig import ensure_named
from infra.config import ConfigError, Stack
from infra.config.operator import Install, OperatorApi
from infra.config.storage_kinds import StorageKind
from infra.objects import adoption, job_kinds
from infra.objects.adoption import Ownership
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import DEFINITION, PYTORCHJOB
from infra.objects.kinds import title
from infra.objects.look import ANSWER_S, READY, Look, UnknownError
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from infra.run import finished
from infra.training_operator.plan import Plan, plan
from tests.matrix.entries import QUEUE
from tests.unit.infra.objects.faulty_server import FAULTS, Handler, Server, kubeconfig, served, serving
from tests.unit.infra.samples import IMAGE, JOB, stack
from tests.unit.infra.test_claim_users import asking, held
from tests.unit.infra.test_storage_kinds import of_kind

PATIENT_S = 20.0
"""For how long a server that starts is waited for here. Its faults end much earlier."""
LATE, LATE_S = {"no answer", "slow answer"}, 0.1
"""Faults that take as long as an answer may take, and how long that is for them alone."""
ONE_BY_ONE = {"403", "503", "login page"}
"""Made at each single question; the others at all of them, and at the last."""
OWNED = Ownership(StackState(), "0" * 16, own_cluster=False)
PLANNED: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
    {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "b", "namespace": "a"}},
]
MODELS = "PersistentVolumeClaim/a/models"
DEFINED = [f"{DEFINITION}/{each.crd}" for each in (PYTORCHJOB, *job_kinds.GANG_KINDS)]
GIVEN = Plan(crd=False, operator=False, namespaces=())
EXISTING: dict[str, Any] = {
    "cluster": {"kind": "existing", "namespace": "team"},
    "image": {"reference": "x:1", "unpinned": True},
}
WITH_ID = {
    **EXISTING,
    "cluster": {
        "kind": "existing",
        "kubeconfig": "/nowhere",
        "id": "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13",
    },
}


def of(*objects: str) -> StackState:
    """A state that holds them."""
    return StackState(objects=frozenset(objects))


def leaving() -> Stack:
    """A stack whose job leaves when it has finished."""
    return stack(**EXISTING, job={**JOB, "runPolicy": {agreed.TTL: 5}})


FINISHED = StackState(finished={f"PyTorchJob/team/{JOB['name']}": {"run": "a-1"}})
Guard = Callable[[Look], object]
GUARDS: dict[str, list[Guard]] = {
    "clusters.existing.kubeconfig.ensure_named": [
        lambda look: ensure_named("", stack(**WITH_ID).cluster, look)
    ],
    "clusters.discovery.read_contents": [
        lambda look: discovery.read_contents(look, lambda _: False, Question(frozenset({"team"}), kueue=True))
    ],
    "clusters.foreign_objects.titles": [lambda look: foreign_objects.titles(look, "dev")],
    "clusters.selection.examine": [lambda look: selection.examine(stack(**EXISTING), lambda _: False, look)],
    "decision.decide": [lambda look: decided(look)],
    "decision.ensure_free": [
        lambda look: decision.ensure_free(asking(request="5Gi"), look, held(asking()), ()),
        lambda look: decision.ensure_free(asking_for_v2(), look, of(*DEFINED), ()),
        lambda look: decision.ensure_free(stack(), look, of("Namespace/old"), ()),
    ],
    "dependents.of": [
        lambda look, titles=titles: dependents.of(look, titles, [])  # type: ignore[misc]
        for titles in (["Namespace/a"], [MODELS], DEFINED)
    ],
    "dependents.users": [
        lambda look, own=own: told(dependents.users(look, [own]))  # type: ignore[misc]
        for own in ("Namespace/a", MODELS, "Deployment/a/operator")
    ],
    "run.finished.left": [lambda look: finished.left(leaving(), look, FINISHED)],
    "inspection.objects": [lambda look: inspection.objects(stack(**EXISTING), look)],
    "objects.adoption.survey": [lambda look: adoption.survey(look, PLANNED, OWNED)],
    "decision.needs_two_passes": [lambda look: survey_of_program(look)],
    "decision.ensure_usable": [
        lambda look, kind=kind: decision.ensure_usable(of_kind(kind), look, [])  # type: ignore[misc]
        for kind in StorageKind
        if kind is not StorageKind.CLASS
    ],
}
"""Module and name of each function that is handed a look -> calls of it that a server that works lets pass."""
TAKEN_TO_BE_THERE = {
    "clusters.discovery.read_contents",
    "clusters.selection.examine",
}
"""Those that take what may not be looked at to be there, and somebody else's (docs/security.md)."""
REFUSALS = (adoption.OthersObjectsError, adoption.LostObjectsError, ConfigError)
"""What a guard knows may not pass."""
WHOLE: dict[str, Any] = {
    "cluster": {
        "kind": "existing",
        "namespace": "team",
        "guard": "warn",
        "quota": {"pods": 8},
        "limitRange": {"memoryRatio": 4},
        "queue": QUEUE,
    },
    "operator": {"install": "auto", "queue": "kueue"},
    "storage": {},
    "image": {"reference": IMAGE},
    "job": {
        **JOB,
        "data": [{"path": "/data", "folder": "/var/lib/trainstack/data"}],
        "egress": [],
        "env": {"TOKEN": {"secure": "v1:cipher"}},
    },
}
"""A stack with an object of every kind, in a cluster that has nothing yet."""
AVOIDS: dict[str, dict[str, Any]] = {
    adoption.NEVER: {"operator.install": "never"},
    adoption.ELSEWHERE: {"cluster.namespace": "another"},
    adoption.WITHOUT["ResourceQuota"]: {"cluster.quota": None, "cluster.limitRange": None},
    adoption.WITHOUT["ClusterQueue"]: {"cluster.queue": None},
    adoption.WITHOUT["ValidatingAdmissionPolicy"]: {"cluster.guard": "none"},
    adoption.WITHOUT["Job"]: {"storage.prepare": False},
    adoption.WITHOUT["Namespace"]: {
        "storage.kind": "claim",
        "storage.claim": "given",
        "operator.install": "never",
    },
    adoption.WITHOUT["NetworkPolicy"]: {"job.egress": None},
    adoption.WITHOUT["PersistentVolume"]: {
        "storage.kind": "claim",
        "storage.claim": "given",
        "job.data": [{"path": "/data", "claim": "given"}],
    },
    adoption.WITHOUT["Secret"]: {
        "job.env": {"TOKEN": {"secret": "given", "key": "token"}},
        "operator.install": "never",
    },
}
"""What an object may not be looked at without -> the keys that it names, with the values that it names."""
COPIES = "/api/v1/namespaces/default/configmaps"
"""Asked for to leave out what is in every namespace: without an answer more counts as others'."""


def asking_for_v2() -> Any:
    return stack(operator={"api": "v2"}, **EXISTING)


def told(users: dict[str, Any]) -> None:
    """As `make down` reads it: what may not be listed is somebody's, and stays."""
    by_place = (*users["namespaces"].values(), *users["claims"].values())
    lines = [*users["jobs"], *(each for found in by_place for each in found)]
    if lines:
        assert all(each.startswith("unknown: ") for each in lines)
        raise UnknownError(lines[0])


def decided(look: Look) -> bool:
    known = stack(**EXISTING)
    return decision.decide(known, look, OWNED, ClusterContents(), stack_plan.of(known, GIVEN))


def survey_of_program(look: Look) -> bool:
    return decision.needs_two_passes(
        stack(**EXISTING), look, PLANNED, Ownership(StackState(), "0" * 16, own_cluster=True)
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def look(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Look]:
    monkeypatch.setattr(component, "ensure_named", lambda *_: None)
    server.fault, server.at = None, None
    server.asked.clear()
    address = ApiAddress(str(kubeconfig(server, tmp_path)))
    return lambda answer_s=ANSWER_S, limit_s=0: Look(
        address, lambda _: None, limit_s=limit_s, answer_s=answer_s
    )


def handed_a_look() -> set[str]:
    """Every public function of the program that takes a `Look`."""
    found = set()
    for file in (paths.ROOT / "infra").rglob("*.py"):
        module = ".".join(file.relative_to(paths.ROOT / "infra").with_suffix("").parts)
        for each in ast.parse(file.read_text()).body:
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                asked = [ast.unparse(given.annotation) for given in each.args.args if given.annotation]
                found |= {f"{module}.{each.name}"} if "Look" in asked else set()
    return found


def test_each_guard_is_tried() -> None:
    assert set(GUARDS) == handed_a_look()


CASES = [
    pytest.param(name, guard, id=f"{name}-{number}")
    for name, guards in GUARDS.items()
    for number, guard in enumerate(guards)
]


@pytest.mark.parametrize(("name", "guard"), CASES)
def test_a_server_that_works_lets_it_pass(
    name: str, guard: Guard, server: Server, look: Callable[..., Look]
) -> None:
    with suppress(*REFUSALS):
        guard(look())
    assert len(server.asked) > 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("name", "guard"), CASES)
def test_what_it_could_not_look_at_is_not_allowed(
    name: str, guard: Guard, fault: str, server: Server, look: Callable[..., Look]
) -> None:
    if fault == "403" and name in TAKEN_TO_BE_THERE:
        return  # the next test
    asked = questions(guard, server, look)
    for place in [None, *(asked if fault in ONE_BY_ONE else asked[-1:])]:
        if place == COPIES and fault == "403":
            continue
        server.fault, server.at = FAULTS[fault], None if place is None else {place}
        server.asked.clear()
        with pytest.raises(UnknownError) as raised:
            guard(look(LATE_S) if fault in LATE else look())
        assert "fix: " in str(raised.value) or name.endswith(".users")
        end = time.monotonic() + 30
        while not server.asked and time.monotonic() < end:  # a busy server reads late
            time.sleep(0.01)
        assert {each.partition(" ")[0] for each in server.asked} == {"GET"}
        if fault == "403" and place is not None:
            assert "this user may not " in str(raised.value)


class Restarting:
    """A server that restarts when `place` is asked for: it gives that many faults of each name, then its last word."""

    def __init__(self, place: str, faults: dict[str, int], last: str = "") -> None:
        self.place, self.last = place, last
        self.left = [name for name, number in faults.items() for _ in range(number)]
        self.asked = 0

    def __call__(self, handler: Handler) -> None:
        is_asked = handler.path.partition("?")[0] == self.place
        self.asked += is_asked
        last = self.last if is_asked else ""
        name = self.left.pop(0) if self.asked and self.left else last
        (FAULTS[name] if name else served(handler).well)(handler)


@pytest.mark.parametrize(("name", "guard"), CASES)
def test_a_server_that_restarts_is_asked_until_it_answers(
    name: str, guard: Guard, server: Server, look: Callable[..., Look]
) -> None:
    """First it is not ready, then it refuses everybody. What it says at last counts."""
    wanted = answer(guard, look())
    for place in ends(questions(guard, server, look)):
        restarting = Restarting(place, {"503": 3, "403": 3})
        server.fault = restarting
        assert answer(guard, look(limit_s=PATIENT_S)) == wanted
        assert not restarting.left


@pytest.mark.parametrize("name", sorted(GUARDS.keys() - TAKEN_TO_BE_THERE))
def test_a_right_that_is_missing_is_named_once_the_server_is_back(
    name: str, server: Server, look: Callable[..., Look]
) -> None:
    """It is not waited for: a server that is ready does not change its mind."""
    for guard in GUARDS[name]:
        for place in ends(questions(guard, server, look)):
            missing = Restarting(place, {"503": 3}, "403")
            server.fault = missing
            with pytest.raises(UnknownError, match="this user may not ") as raised:
                guard(look(limit_s=PATIENT_S))
            assert "fix: ask an administrator for this right" in str(raised.value) or name.endswith(".users")
            assert not missing.left
            assert missing.asked <= 3, "a guard may ask twice"


def ends(asked: list[str]) -> set[str]:
    """The first question and the last that has to be answered."""
    needed = [each for each in asked if each != COPIES]
    return {needed[0], needed[-1]}


def answer(guard: Guard, look: Look) -> str:
    """What a guard says: of what may not pass by an error."""
    try:
        return repr(guard(look))
    except REFUSALS as error:
        return str(error)


def questions(guard: Guard, server: Server, look: Callable[..., Look]) -> list[str]:
    """The paths that a guard asks for, but for the server's own word on itself."""
    server.asked.clear()
    server.fault = None
    with suppress(*REFUSALS):
        guard(look())
    found = [each.partition(" ")[2] for each in server.asked]
    return [each for each in dict.fromkeys(found) if each != READY]


@pytest.mark.parametrize("name", sorted(TAKEN_TO_BE_THERE))
def test_what_may_not_be_looked_at_is_taken_to_be_there(
    name: str, server: Server, look: Callable[..., Look]
) -> None:
    everything = questions(GUARDS[name][0], server, look)
    server.fault, server.at = FAULTS["403"], {each for each in everything if each.count("/") != 3}
    found = GUARDS[name][0](look())
    assert isinstance(found, ClusterContents)
    assert "team" in found.namespaces
    assert (found.operator, found.crd) == (True, True)


def planned_by(changes: dict[str, Any], **of_operator: str) -> list[Manifest]:
    """What a stack of WHOLE with `changes`, key to value, registers in a cluster that has nothing yet."""
    sections = copy.deepcopy(WHOLE)
    sections["operator"] |= of_operator
    for key, value in changes.items():
        section, name = key.split(".")
        sections[section][name] = value
    made = stack(**sections)
    never = made.operator.install is Install.NEVER
    space = {made.cluster.namespace} if made.storage.kind is StorageKind.CLAIM else set()
    found = ClusterContents(namespaces=frozenset(space), crd=never, operator=never, kueue=never)
    return [each.manifest for each in stack_plan.of(made, plan(made, found))]


@pytest.mark.parametrize("api", OperatorApi)
def test_the_key_that_does_without_a_look_avoids_it(api: OperatorApi) -> None:
    """Of an object of every kind: with the keys that the advice names, the stack asks for it no more."""
    for each in planned_by({}, api=api.value):
        advice = adoption.WITHOUT.get(each["kind"], adoption.NEVER)
        changes = AVOIDS[advice]
        assert [key for key in changes if not set(key.split(".")) <= set(re.findall(r"\w+", advice))] == []
        assert title(each) not in map(title, planned_by(changes, api=api.value)), advice


def test_every_advice_is_tried() -> None:
    kinds = {each["kind"] for api in OperatorApi for each in planned_by({}, api=api.value)}
    assert kinds >= adoption.WITHOUT.keys()
    assert {adoption.NEVER, *adoption.WITHOUT.values()} == AVOIDS.keys()
