"""Each kind of object that a stack makes, in each state that a verb may find it in: what each verb does with it.

The table says what becomes of one object of the kind. `up` and `preview` are the whole program under the real Pulumi.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra import dependents, stack_plan
from infra.clusters.discovery import ClusterContents
from infra.config import from_raw
from infra.config.operator import OperatorApi
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi, path
from infra.objects.kinds import Kind, title
from infra.objects.manifest import Manifest
from infra.training_operator.plan import plan
from standins.tests.apiserver import ApiServer
from standins.tests.flaky import FlakyProxy
from tests.e2e.waiting import wait_until
from tests.matrix import service_account
from tests.matrix.entries import JOB, QUEUE
from tests.matrix.hurried_program import ANSWER_S, NEVER
from tests.matrix.played_operator import BY_HAND, PlayedOperator
from tests.matrix.played_operator import CRD as PLAYED
from tests.matrix.played_trainer import PlayedTrainer
from tests.matrix.project import AppliedProject, with_changes
from tests.matrix.test_unknown import known
from tests.matrix.verbs import VERBS, Ended
from toolchain.operating import state, status, user_backend


class Outcome(StrEnum):
    """What a verb does with an object of a kind."""

    CREATED = "the object is made"
    DELETED = "the object is deleted"
    KEPT = "the object stays as it is, and the verb has nothing to say of it"
    NOTHING = "there is no object, and the verb has nothing to say of that"
    TOLD = "the verb names the object, and touches nothing"
    REFUSED = "the verb refuses to go on, and names the object as somebody else's"
    UNKNOWN = "the verb ends with an error that names what it could not ask, and touches nothing"


class State(StrEnum):
    """How the object is when the verb begins."""

    ABSENT = "absent"
    OURS = "ours"
    OTHERS = "others'"
    TERMINATING = "terminating"
    FORBIDDEN = "forbidden"
    UNREACHABLE = "unreachable"
    SLOW = "slow"


CREATED, DELETED, KEPT, NOTHING, TOLD, REFUSED, UNKNOWN = Outcome
ABSENT, OURS, OTHERS, TERMINATING, FORBIDDEN, UNREACHABLE, SLOW = State
UP, PREVIEW, DOWN, STATUS, DRIFT = VERBS
HINDERED = (FORBIDDEN, UNREACHABLE, SLOW)
"""The stack is up and left as it is; what the verb asks about an object is not answered in time, or not at all."""

KINDS = (
    *("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Job", "Secret", "PyTorchJob"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ResourceQuota", "LimitRange"),
    *("NetworkPolicy", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
    *("Service", "Deployment", "ValidatingWebhookConfiguration", "ConfigMap", "Role", "RoleBinding"),
    *(
        "MutatingWebhookConfiguration",
        "ResourceFlavor",
        "WorkloadPriorityClass",
        "ClusterQueue",
        "LocalQueue",
    ),
    *("TrainingRuntime", "TrainJob"),
)
SHOWN = status.LISTED
"""Kinds that `make status` lists. `make drift` compares every object."""
LISTED = tuple(
    kind
    for kind in KINDS
    if kind in {each.kind for each in (*dependents.NAMESPACED, *dependents.OF_A_NAMESPACE, *dependents.EVERY)}
)
"""Kinds that `make down` lists: an object of somebody else's may depend on the stack."""
SHARED = ("Namespace", "CustomResourceDefinition", "Deployment", "ResourceFlavor", "WorkloadPriorityClass")
"""Others' are used as they are: a namespace, an operator, Kueue, and what quotas refer to."""


def usually(outcome: Outcome, **but: tuple[str, ...]) -> dict[str, Outcome]:
    """Kind -> `outcome`; of the kinds in `but` another one, by its name."""
    others = {kind: Outcome[name] for name, kinds in but.items() for kind in kinds}
    return {**dict.fromkeys(KINDS, outcome), **others}


TABLE: dict[State, dict[str, dict[str, Outcome]]] = {
    ABSENT: {
        UP: usually(CREATED),
        PREVIEW: usually(TOLD),
        DOWN: usually(NOTHING),
        STATUS: usually(NOTHING, TOLD=SHOWN),
        DRIFT: usually(TOLD),
    },
    OURS: {
        UP: usually(KEPT),
        PREVIEW: usually(KEPT),
        DOWN: usually(DELETED),
        STATUS: usually(KEPT),
        DRIFT: usually(KEPT),
    },
    OTHERS: {
        UP: usually(REFUSED, KEPT=SHARED),
        PREVIEW: usually(REFUSED, KEPT=SHARED),
        DOWN: usually(KEPT),
        STATUS: usually(KEPT),
        DRIFT: usually(REFUSED, KEPT=SHARED),
    },
    TERMINATING: {
        UP: usually(TOLD),
        PREVIEW: usually(TOLD),
        DOWN: usually(DELETED),
        STATUS: usually(KEPT, TOLD=SHOWN),
        DRIFT: usually(TOLD),
    },
    FORBIDDEN: {
        UP: usually(UNKNOWN),
        PREVIEW: usually(UNKNOWN),
        DOWN: usually(UNKNOWN),
        STATUS: usually(KEPT, UNKNOWN=SHOWN),
        DRIFT: usually(UNKNOWN),
    },
    UNREACHABLE: {
        UP: usually(UNKNOWN),
        PREVIEW: usually(UNKNOWN),
        DOWN: usually(UNKNOWN),
        STATUS: usually(KEPT, UNKNOWN=SHOWN),
        DRIFT: usually(UNKNOWN),
    },
    SLOW: {
        UP: usually(UNKNOWN),
        PREVIEW: usually(UNKNOWN),
        DOWN: usually(DELETED, UNKNOWN=LISTED),
        STATUS: usually(KEPT),
        DRIFT: usually(UNKNOWN),
    },
}

NAMESPACE, USER = "every-kind", "every-kind"
LATE_S = ANSWER_S + 2
FINALIZER, HELD_S = "test/held", 4.0
BINDING = ("volumeName", "claimRef")
"""What Kubernetes writes into a claim and its volume when it binds them, which may take 15 s."""
WIPED, HELD, PLANTED, SMALL, MIXED = "wiped", "held", "planted", "small", "mixed"
"""How a stack may be, beside up and down: without its objects, or with some that wait for FINALIZER; not up beside what
others have made, or up with few objects of its own beside that; or up with the others beside it."""
SECTIONS: dict[OperatorApi, dict[str, Any]] = {
    OperatorApi.V1: {
        "cluster": {
            "kind": "existing",
            "namespace": NAMESPACE,
            "guard": "warn",
            "quota": {"pods": 20},
            "limitRange": {"memoryRatio": 4},
            "queue": QUEUE,
        },
        "operator": {"install": "auto", "queue": "kueue"},
        "storage": {},
        "job": {
            **JOB,
            "data": [{"path": "/data", "folder": "/var/lib/trainstack/data"}],
            "egress": [],
            "env": {"TOKEN": {"secure": True}},
        },
    },
    OperatorApi.V2: {
        "cluster": {"kind": "existing", "namespace": f"{NAMESPACE}-v2"},
        "operator": {"install": "auto", "api": "v2", "namespace": f"{NAMESPACE}-trainer"},
    },
}
"""A stack with all that makes objects, and one with the other API's job."""
SPARE = "cohorts.kueue.x-k8s.io"
"""A definition without objects, which may go alone."""


def name_of(api: OperatorApi) -> str:
    return f"every-{api}"


def planned(api: OperatorApi) -> list[Manifest]:
    """What such a stack registers in a cluster that has nothing yet."""
    sections = with_changes(SECTIONS[api])
    if api is OperatorApi.V1:
        sections["job"]["env"] = {"TOKEN": {"secure": "v1:cipher"}}
    stack = from_raw(name_of(api), sections, "stacks/Pulumi.every.yaml")
    return [each.manifest for each in stack_plan.of(stack, plan(stack, ClusterContents()))]


def _representatives() -> dict[str, tuple[OperatorApi, Manifest]]:
    """Kind -> the stack that makes one, and that one: where there are several, the last, which no other one needs."""
    found: dict[str, tuple[OperatorApi, Manifest]] = {}
    for api in reversed(OperatorApi):
        found |= {each["kind"]: (api, each) for each in planned(api) if _is_chosen(each)}
    return found


def _is_chosen(each: Manifest) -> bool:
    wanted = {"CustomResourceDefinition": SPARE, "Namespace": NAMESPACE, "Secret": f"{JOB['name']}-env"}
    return bool(each["metadata"]["name"] == wanted.get(each["kind"], each["metadata"]["name"]))


CHOSEN = _representatives()


def test_every_kind_has_its_outcomes() -> None:
    """A stack that makes another kind needs a decision for each state and verb."""
    assert sorted(CHOSEN) == sorted(KINDS)
    assert [*TABLE] == [*State]
    for of_verbs in TABLE.values():
        assert of_verbs.keys() == VERBS.keys()
        assert [sorted(each) for each in of_verbs.values()] == [sorted(KINDS)] * len(VERBS)


class Cluster:
    """The server, as its administrator sees it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api = ClusterApi.at(ApiAddress(str(kubeconfig)))

    def find(self, each: Manifest) -> Manifest | None:
        """The live object of a manifest's name; None where there is none."""
        try:
            return self.api.get(*place(each))
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def create(self, each: Manifest) -> None:
        """Make an object that may be there already."""
        try:
            self.api.create(place(each)[0], each)
        except ApiException as error:
            if error.status != 409:
                raise

    def delete(self, each: Manifest) -> None:
        try:
            self.api.delete(*place(each), propagation="Background")
        except ApiException as error:
            if error.status != 404:
                raise

    def serves(self, definition: Manifest) -> bool:
        live = self.find(definition) or {}
        said = (live.get("status") or {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in said)

    def hold(self, each: Manifest, *finalizers: str) -> None:
        """Let an object wait for these of the tests' finalizers, and for those of others."""
        live = self.find(each)
        if live is None:
            return
        there = [name for name in live["metadata"].get("finalizers") or [] if name != FINALIZER]
        kind, name, namespace = place(each)
        self.api.patch(kind, name, {"metadata": {"finalizers": [*there, *finalizers]}}, namespace)


def place(each: Manifest) -> tuple[Kind, str, str]:
    metadata = each["metadata"]
    return Kind.of(each["kind"], each["apiVersion"]), metadata["name"], metadata.get("namespace", "")


def is_leaving(live: Manifest) -> bool:
    return "deletionTimestamp" in live["metadata"]


def lasting(live: Manifest | None) -> Any:
    """What no controller writes by itself."""
    if live is None:
        return None
    if is_leaving(live):
        return {name: live["metadata"][name] for name in ("uid", "deletionTimestamp")}
    metadata = live["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.partition("/")[0].endswith(".kubernetes.io")
    }
    spec = {key: value for key, value in (live.get("spec") or {}).items() if key not in BINDING}
    return {
        **{key: value for key, value in live.items() if key != "status"},
        "metadata": {"uid": metadata["uid"], "labels": metadata.get("labels"), "annotations": annotations},
        "spec": spec,
    }


class User:
    """The one who runs the verbs: by RBAC, through a proxy."""

    def __init__(self, server: ApiServer, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.proxy = cluster, FlakyProxy(server)
        connection: Any = cluster.api.connection
        metadata = {"name": USER}
        subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
        rbac = "rbac.authorization.k8s.io"
        self.role: Manifest = {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": self._rules(),
        }
        self.binding: Manifest = {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": USER},
        }
        self.account: Manifest = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**metadata, "namespace": "default"},
        }
        for each in (self.role, self.binding, self.account):
            cluster.create(each)
        self.kubeconfig = service_account.kubeconfig(
            server.kubeconfig, client.CoreV1Api(connection), "default", USER, folder
        )
        self.seen = ClusterApi.at(ApiAddress(str(self.kubeconfig)))
        known = yaml.safe_load(self.kubeconfig.read_text())
        known["clusters"][0]["cluster"] = {"server": self.proxy.url}
        self.kubeconfig.write_text(yaml.safe_dump(known))
        self.proxy.no_answer_s = LATE_S
        self.proxy.authorization = f"Bearer {known['users'][0]['user']['token']}"

    def _rules(self, without: Kind | None = None) -> list[Manifest]:
        """All rights, or all but those to one kind."""
        everywhere: Manifest = {"nonResourceURLs": ["*"], "verbs": ["*"]}
        if without is None:
            return [everywhere, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        groups = [each["name"] for each in self.cluster.api.read("/apis")["groups"]]
        others = [each for each in ["", *groups] if each != without.group]
        served = self.cluster.api.read(path(without).rpartition("/")[0])["resources"]
        names = [each["name"] for each in served if each["name"].partition("/")[0] != without.plural]
        of_group = [{"apiGroups": [without.group], "resources": names, "verbs": ["*"]}] if names else []
        return [everywhere, {"apiGroups": others, "resources": ["*"], "verbs": ["*"]}, *of_group]

    @contextmanager
    def without(self, each: Manifest) -> Iterator[None]:
        """Without rights to the kind of an object."""
        self._may(each, self._rules(place(each)[0]), may=False)
        try:
            yield
        finally:
            self._may(each, self._rules(), may=True)

    def _may(self, each: Manifest, rules: list[Manifest], *, may: bool) -> None:
        kind, name, _ = place(self.role)
        self.cluster.api.patch(kind, name, {"rules": rules})
        wait_until("the server goes by the rights", lambda: self._sees(each) == may)

    def _sees(self, each: Manifest) -> bool:
        try:
            self.seen.get(*place(each))
        except ApiException as error:
            return bool(error.status != 403)
        return True

    @contextmanager
    def hurt(self, objects: list[Manifest], fault: State) -> Iterator[None]:
        """No answer about objects, or a late one."""
        places = [place(each) for each in objects]
        ends = [
            end
            for kind, name, namespace in places
            for end in (path(kind, namespace, name), path(kind, namespace), path(kind))
        ]
        for end in ends:
            if fault is SLOW:
                self.proxy.slow[end] = LATE_S
            else:
                self.proxy.failing[end] = 503
        try:
            yield
        finally:
            self.proxy.slow.clear()
            self.proxy.failing.clear()


class Stand:
    """A stack, and how it is: `up`, `down`, or None where a test has not put it back."""

    def __init__(self, api: OperatorApi, folder: Path, user: User) -> None:
        self.api, self.cluster, self.sections = api, user.cluster, SECTIONS[api]
        self.manifests = planned(api)
        self.project = made = AppliedProject(folder, user.kubeconfig, name_of(api))
        made.environment["PULUMI_STANDINS_PATIENCE"] = "0.2"
        made.use_hurried_program()
        self.how: str | None = DOWN
        self.last: dict[str, Any] | None = None
        """What `live` last told, where a verb has left all as it was and nothing else has been done since."""
        self.held: tuple[str, ...] = ()

    def be(self, how: str | None) -> None:
        """Bring it about, from wherever an earlier test has left it."""
        if self.how != how:
            self.last = None
            if self.how in (HELD, PLANTED, SMALL, MIXED) and (self.how, how) != (PLANTED, SMALL):
                self._tidy()
            if how in (WIPED, HELD):
                self.be(UP)
            if how in (UP, DOWN):
                self._run(how, self.sections)
            elif how == PLANTED:
                self.be(DOWN)
                self._plant()
            elif how == SMALL:
                self.be(PLANTED)
                self._run(UP, self._small())
            elif how == WIPED:
                self.wipe()
            self.how = how
        self.project.configured(**self.sections)

    def _run(self, verb: str, sections: dict[str, Any]) -> None:
        self.project.configured(**sections)
        ended = VERBS[verb](self.project)
        assert ended.status == 0, ended.told

    def _plant(self) -> None:
        """Make the namespaces and the definitions as others do."""
        for each in self.of_kinds("Namespace", "CustomResourceDefinition"):
            self.cluster.create(others(each))
        for each in self.of_kinds("CustomResourceDefinition"):
            wait_until(f"{title(each)} is served", lambda each=each: self.cluster.serves(each))  # type: ignore[misc]

    def _small(self) -> dict[str, Any]:
        """Sections of a stack that makes a volume, a claim and a job of other names, beside what is others'."""
        cluster, operator = self.sections["cluster"], self.sections["operator"]
        return {
            "cluster.namespace": cluster["namespace"],
            "operator.api": operator.get("api", "v1"),
            "storage.volume": SMALL,
            "storage.claim": SMALL,
            "job.name": SMALL,
        }

    def of_kinds(self, *kinds: str) -> list[Manifest]:
        return [each for each in self.manifests if each["kind"] in kinds]

    def _tidy(self) -> None:
        """Take away what the tests, or others, have made; a deletion that was held goes on."""
        if self.how == HELD:
            self.let_go()
            wait_until("what was deleted is gone", lambda: not any(map(is_leaving, self.found())))
            self.how = None
            return
        if self.how != PLANTED:
            self._run(DOWN, self.sections)
        self.wipe()
        self.how = DOWN

    def let_go(self) -> None:
        for each in self.manifests:
            self.cluster.hold(each)

    def found(self) -> list[Manifest]:
        return [live for each in self.manifests if (live := self.cluster.find(each))]

    def live(self) -> dict[str, Any]:
        """Title -> what lasts of each object of the stack's plan."""
        return {title(each): lasting(self.cluster.find(each)) for each in self.manifests}

    def settled(self) -> dict[str, Any]:
        """As `live`, once no controller writes any more."""
        found: dict[str, Any] = {}
        while found != (found := self.live()):
            time.sleep(0.3)
        return found

    def wipe(self) -> None:
        """Delete every object of the stack by hand, as an administrator who has no state."""
        for each in reversed(self.manifests):
            self.cluster.delete(each)
        for each in self.manifests:
            wait_until(f"{title(each)} is gone", lambda each=each: self.cluster.find(each) is None)  # type: ignore[misc]


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: Any) -> Iterator[Cluster]:
    """Without the definition and the operator that are played for other tests; jobs are played all the same."""
    operator.uninstall()
    made = Cluster(api_server.kubeconfig)
    wait_until("the played definition is gone", lambda: made.find(PLAYED) is None)
    trainer = PlayedTrainer(api_server.kubeconfig, tmp_path_factory.mktemp("trainer"))
    thread = threading.Thread(target=trainer._play, daemon=True)
    thread.start()
    yield made
    trainer._stopped.set()
    thread.join()
    operator.install()


@pytest.fixture(scope="module")
def user(api_server: ApiServer, cluster: Cluster, tmp_path_factory: Any) -> Iterator[User]:
    made = User(api_server, cluster, tmp_path_factory.mktemp("user"))
    yield made
    made.proxy.close()
    for each in (made.binding, made.role, made.account):
        cluster.delete(each)


@pytest.fixture(scope="module")
def stands(user: User, tmp_path_factory: Any) -> Iterator[dict[OperatorApi, Stand]]:
    made = {api: Stand(api, tmp_path_factory.mktemp(f"every-kind-{api}"), user) for api in OperatorApi}
    yield made
    for each in made.values():
        each.be(DOWN)


def run(stand: Stand, verb: str, capfd: pytest.CaptureFixture[str]) -> tuple[Ended, str]:
    """How the verb ends, and all that it prints. `make status` asks the state as with a backend of ours."""
    capfd.readouterr()
    with pytest.MonkeyPatch.context() as changed:
        if verb == STATUS:
            changed.setattr(user_backend, "backend", lambda: None)
            held = stand.project.deployment()
            changed.setattr(state, "deployment", lambda _: held)
        ended = VERBS[verb](stand.project)
    return ended, "\n".join([ended.told, *capfd.readouterr()])


LEAVING = "being deleted"
NOT_ASKED = re.compile(
    r"(?i)may not (get|list)|cannot be asked|cannot be read|forbidden|failed|503|timed? ?out"
)


def names(each: Manifest, text: str) -> bool:
    kind, name = re.escape(each["kind"]), re.escape(each["metadata"]["name"])
    return bool(re.search(rf"\b{kind}[/ ]([\w.-]+/)?{name}(?![\w.-])", text))


def judged(verb: str, each: Manifest, before: Any, after: Any, ended: Ended, told: str) -> Outcome | str:
    """What has become of an object; a sentence where that is none of the outcomes."""
    if before is None and after is not None:
        return CREATED
    if before is not None and after is None:
        return DELETED
    if before != after:
        return f"changed from {before} to {after}"
    lines = told.splitlines()
    if verb == STATUS:
        bad = "\n".join(each for each in lines if " ok  " not in each or "not ok" in each)
        unknown = "\n".join(each for each in lines if "unknown" in each)
        if names(each, unknown) or place(each)[0].plural in unknown:
            return UNKNOWN
        return TOLD if names(each, bad) else (KEPT if before else NOTHING)
    if any(LEAVING in line and names(each, line) for line in lines):
        return TOLD
    is_error = bool(ended.told) if verb != PREVIEW else ended.status != 0
    if is_error and "fix: " not in told:
        return f"an error without a way on: {told}"
    if is_error and re.search(rf"(?m)^ +{re.escape(title(each))} \(", told):
        return REFUSED
    unasked = [line for line in lines if NOT_ASKED.search(line)]
    if is_error and any(place(each)[0].plural in line.lower() or names(each, line) for line in unasked):
        return UNKNOWN
    if is_error:
        return f"an error that does not name it: {told}"
    steps = "\n".join(
        each for each in lines if re.search(r"(^\w+: )|( (create|delete|replace|update)\b)", each)
    )
    if verb in (PREVIEW, DRIFT) and names(each, steps):
        return TOLD
    return KEPT if before else NOTHING


Case = tuple[State, str, tuple[str, ...]]
USED = tuple(kind for kind in KINDS if kind in SHARED)
UNSHARED = tuple(kind for kind in KINDS if kind not in SHARED)
UNSHOWN = tuple(kind for kind in KINDS if kind not in SHOWN)
# A refusal names ten objects.
BATCHES = [UNSHARED[place : place + 8] for place in range(0, len(UNSHARED), 8)]
ASKED = [(verb, kind) for kind in KINDS for verb in VERBS]
CASES: list[Case] = [
    (ABSENT, PREVIEW, KINDS),
    *((OTHERS, verb, batch) for verb in (PREVIEW, UP) for batch in BATCHES),
    (OTHERS, PREVIEW, USED),
    *((OTHERS, DRIFT, batch) for batch in [*BATCHES, USED]),
    *((OTHERS, verb, batch) for verb in (STATUS, DOWN) for batch in (UNSHARED, USED)),
    (OTHERS, UP, USED),
    (ABSENT, UP, KINDS),
    *((OURS, verb, KINDS) for verb in (STATUS, PREVIEW, DRIFT, UP)),
    (SLOW, STATUS, KINDS),
    *((SLOW, verb, (kind,)) for verb, kind in ASKED if verb not in (STATUS, DOWN)),
    *((FORBIDDEN, verb, (kind,)) for verb, kind in ASKED),
    *((UNREACHABLE, verb, (kind,)) for verb, kind in ASKED if verb != STATUS or kind in SHOWN),
    (UNREACHABLE, STATUS, UNSHOWN),
    *((ABSENT, verb, KINDS) for verb in (STATUS, DRIFT, DOWN)),
    *(
        (TERMINATING, verb, batch)
        for batch in (KINDS[:1], KINDS[1:])
        for verb in (STATUS, PREVIEW, DRIFT, UP, DOWN)
    ),
    *((SLOW, DOWN, (kind,)) for kind in LISTED),
    (SLOW, DOWN, tuple(kind for kind in KINDS if kind not in LISTED)),
    (OURS, DOWN, KINDS),
]
"""Many kinds where one command can show them all, else one; in an order in which few cases need another situation."""
IN_CI: list[Case] = [(ABSENT, PREVIEW, KINDS), (OTHERS, PREVIEW, BATCHES[0])]
"""What needs no stack that is up: a minute. tests/matrix/test_unknown.py has a sample of the other states and verbs."""
SLOW_TEST = pytest.mark.slow(reason="a run of Pulumi on 70 objects each; CI has a sample")


def objects_of(api: OperatorApi, kinds: tuple[str, ...]) -> dict[str, Manifest]:
    """Kind -> the object that is judged, of those that the stack of this API is for."""
    return {kind: CHOSEN[kind][1] for kind in kinds if CHOSEN[kind][0] is api}


def parameters() -> Iterator[Any]:
    for api, case in product(OperatorApi, CASES):
        found, verb, kinds = case
        in_ci = case in IN_CI and (api is OperatorApi.V1 or (found, verb) == (ABSENT, PREVIEW))
        if of_stack := objects_of(api, kinds):
            name = f"{api}-{found}-{verb}-{next(iter(of_stack))}-{len(of_stack)}"
            yield pytest.param(api, *case, id=name, marks=() if in_ci else SLOW_TEST)


def test_the_cases_are_the_whole_table() -> None:
    cells = [(found, verb, kind) for found, verb, kinds in CASES for kind in kinds]
    assert sorted(cells) == sorted(product(State, VERBS, KINDS))


def test_ci_has_each_kind() -> None:
    assert [case for case in IN_CI if case not in CASES] == []
    assert {kind for *_, kinds in IN_CI for kind in kinds} == set(KINDS)


@contextmanager
def scene(stand: Stand, found: State, verb: str, kinds: tuple[str, ...], user: User) -> Iterator[None]:
    """Bring a state about for one object of each of `kinds`."""
    objects = [*objects_of(stand.api, kinds).values()]
    if found is OURS:
        stand.be(UP)
        yield
    elif found is ABSENT:
        stand.be(DOWN if verb in (UP, PREVIEW) else WIPED)
        yield
    elif found in HINDERED:
        stand.be(UP)
        with user.without(objects[0]) if found is FORBIDDEN else user.hurt(objects, found):
            yield
    elif found is TERMINATING:
        if stand.held != kinds:
            stand.be(UP)
        stand.be(HELD)
        stand.held = kinds
        for each in objects:
            stand.cluster.hold(each, FINALIZER)
            stand.cluster.delete(each)
        ends = threading.Timer(HELD_S, stand.let_go)
        if verb == DOWN:
            ends.start()
        yield
        ends.cancel()
    else:
        stand.be(PLANTED if verb in (PREVIEW, UP) else SMALL)
        planted = [
            each
            for each in objects
            if each["kind"] not in ("Namespace", "CustomResourceDefinition")
            and (each["kind"] != "Deployment" or kinds == USED)
        ]
        if kinds == USED:
            planted = [
                *stand.of_kinds("Deployment"),
                *(each for each in planted if each["kind"] != "Deployment"),
            ]
        for each in planted:
            stand.cluster.create(others(each))
        yield
        if stand.how in (PLANTED, SMALL):
            for each in planted:
                stand.cluster.delete(each)
            for each in planted:
                wait_until(f"{title(each)} is gone", lambda each=each: stand.cluster.find(each) is None)  # type: ignore[misc]


def others(each: Manifest) -> Manifest:
    """An object as somebody else makes one of that name. Nobody plays it."""
    metadata = {key: value for key, value in each["metadata"].items() if key != "labels"}
    labels = {
        key: value
        for key, value in (each["metadata"].get("labels") or {}).items()
        if "trainstack" not in f"{key}{value}"
    }
    made = {**each, "metadata": {**metadata, "labels": {**labels, BY_HAND: "true"}}}
    if "webhooks" in each:
        made["webhooks"] = [{**webhook, "matchConditions": NEVER} for webhook in each["webhooks"]]
    if each["kind"] == "Job":
        made["spec"] = {**each["spec"], "suspend": True}
    return made


@pytest.mark.parametrize(("api", "found", "verb", "kinds"), [*parameters()])
def test_what_becomes_of_an_object(
    api: OperatorApi,
    found: State,
    verb: str,
    kinds: tuple[str, ...],
    stands: dict[OperatorApi, Stand],
    user: User,
    capfd: pytest.CaptureFixture[str],
) -> None:
    stand, objects = stands[api], objects_of(api, kinds)
    wanted = {kind: TABLE[found][verb][kind] for kind in objects}
    with scene(stand, found, verb, kinds, user):
        before = stand.last if found in HINDERED and stand.last else stand.settled()
        held = known(stand.project) if UNKNOWN in wanted.values() else {}
        ended, told = run(stand, verb, capfd)
        after = stand.live()
        stand.last = after if after == before else None
        if verb == DOWN or (verb == UP and found is not TERMINATING):
            passed = MIXED if found is OTHERS else verb
            stand.how = passed if not ended.told else (PLANTED if found is OTHERS else None)
    outcomes = {
        kind: judged(verb, each, before[title(each)], after[title(each)], ended, told)
        for kind, each in objects.items()
    }
    assert outcomes == wanted, told
    if held:
        assert (after, known(stand.project)) == (before, held), told
