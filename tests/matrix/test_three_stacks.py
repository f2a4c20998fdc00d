"""Three people have a stack each on one cluster, and take them down in every order: nobody loses anything.

One of them has brought the operator, with its real manifests, and the namespace that two of them use.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from kubernetes import config, dynamic
from kubernetes.client.exceptions import ApiException

from infra.dependents import users
from infra.objects.api import ApiAddress
from infra.objects.labels import OF_JOB, STACK
from infra.objects.look import Look
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.judging import Objects
from tests.matrix.played_operator import CRD, PlayedOperator
from tests.matrix.project import AppliedProject, UpError
from toolchain.operating import objects_left, state

pytestmark = pytest.mark.slow(reason="three stacks come up and go down six times")
INSTALLS = "installs"
STACKS: dict[str, dict[str, Any]] = {
    INSTALLS: {},
    "beside": {},
    "apart": {"cluster.namespace": "team"},
}
DEPLOYMENT = "training-operator"


class Cluster:
    """What the three share, seen by somebody who may see all."""

    def __init__(self, kubeconfig: str) -> None:
        connection: Any = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self.objects: Any = dynamic.DynamicClient(connection)  # type: ignore[no-untyped-call]

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Any:
        """The object, None where there is none."""
        try:
            found = self.objects.resources.get(api_version=api_version, kind=kind)
            return found.get(name=name, namespace=namespace).to_dict()
        except (dynamic.exceptions.NotFoundError, dynamic.exceptions.ResourceNotFoundError):
            return None

    def operator(self) -> dict[str, str | None]:
        """Uids of what makes jobs run."""
        found = {
            "definition": self.find(
                "apiextensions.k8s.io/v1", "CustomResourceDefinition", CRD["metadata"]["name"]
            ),
            "operator": self.find("apps/v1", "Deployment", DEPLOYMENT, "kubeflow"),
            "rights": self.find("rbac.authorization.k8s.io/v1", "ClusterRole", DEPLOYMENT),
        }
        return {name: alive(each) for name, each in found.items()}

    def remove(self, held: dict[str, Any]) -> None:
        """Delete what is left of the objects of a state, as an administrator would."""
        there = [each["outputs"] for each in state.objects(held) if each.get("outputs")]
        for each in reversed(there):
            metadata = each["metadata"]
            try:
                kind = self.objects.resources.get(api_version=each["apiVersion"], kind=each["kind"])
                kind.delete(name=metadata["name"], namespace=metadata.get("namespace"))
            except (dynamic.exceptions.NotFoundError, dynamic.exceptions.ResourceNotFoundError):
                continue
        for each in there:
            metadata = each["metadata"]
            place = (each["apiVersion"], each["kind"], metadata["name"], metadata.get("namespace"))
            wait_until(f"{place} is gone", lambda place=place: self.find(*place) is None)  # type: ignore[misc]


def alive(each: dict[str, Any] | None) -> str | None:
    """The uid of an object that nobody has deleted."""
    if each is None or each["metadata"].get("deletionTimestamp"):
        return None
    return str(each["metadata"]["uid"])


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer, operator: PlayedOperator) -> Iterator[Cluster]:
    """Without the definition and the operator that are played for the other tests; jobs are played all the same."""
    operator.uninstall()
    yield Cluster(str(api_server.kubeconfig))
    operator.install()


@pytest.fixture(scope="module")
def stacks(
    cluster: Cluster, api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, AppliedProject]:
    """Each in a folder and a state of its own. The operator that one brings has webhooks that are never asked."""
    made = {
        name: AppliedProject(tmp_path_factory.mktemp(name), api_server.kubeconfig, name) for name in STACKS
    }
    for each in made.values():
        each.use_hurried_program()
    return made


def sections(name: str) -> dict[str, Any]:
    return {"operator.install": "auto", "job.name": name, **STACKS[name]}


def down(project: AppliedProject) -> list[str]:
    """As `make down` does it; the lines that say what stays, and for whom."""
    held = project.deployment()
    look = Look(ApiAddress(project.environment["KUBECONFIG"]), print)
    found = users(look, objects_left.titles(held))
    project.edit_state(lambda known: objects_left.retain(known, found))
    project.destroy()
    return objects_left.left(held, found)


def of_stack(found: Objects, name: str) -> dict[str, str | None]:
    """Volumes, claims, jobs and pods of a stack, and the namespaces that they are in: key -> uid."""
    own = {
        key
        for key, each in found.items()
        if each["kind"] != "Namespace"
        and name in ((each["metadata"].get("labels") or {}).get(label) for label in (STACK, OF_JOB))
    }
    spaces = {
        f"Namespace//{found[key]['metadata']['namespace']}"
        for key in own
        if "namespace" in found[key]["metadata"]
    }
    return {key: alive(found.get(key)) for key in own | spaces}


def there(project: AppliedProject) -> Objects:
    """What the cluster holds; nothing where nobody defines jobs any more."""
    try:
        return project.objects()
    except ApiException as error:
        if error.status != 404:
            raise
        return {}


@pytest.mark.parametrize("order", list(permutations(STACKS)), ids="-".join)
def test_nobody_loses_anything(
    order: tuple[str, ...], cluster: Cluster, stacks: dict[str, AppliedProject]
) -> None:
    for name in STACKS:
        stacks[name].up(**sections(name))
        assert stacks[name].outputs()["jobStatus"] == "Succeeded"
    installed = stacks[INSTALLS].deployment()
    assert [each for each in state.objects(installed) if objects_left.OPERATOR in each["urn"]]
    shared = cluster.operator()
    assert None not in shared.values()
    said: dict[str, list[str]] = {}
    for place, name in enumerate(order):
        before = stacks[name].objects()
        others = {other: of_stack(before, other) for other in order[place + 1 :]}
        assert all(len(own) >= 6 and None not in own.values() for own in others.values()), others
        said[name] = down(stacks[name])
        after = there(stacks[name])
        assert {other: of_stack(after, other) for other in others} == others
        assert [key for key in of_stack(after, name) if key.startswith("PyTorchJob/")] == [], (
            "its own is gone"
        )
        if others:
            assert cluster.operator() == shared
    stays = order[-1] != INSTALLS
    assert cluster.operator() == (shared if stays else dict.fromkeys(shared))
    assert bool(said[INSTALLS]) == stays
    cluster.remove(installed)


def test_whoever_has_installed_the_operator_cannot_take_it_for_somebody_elses(
    cluster: Cluster, stacks: dict[str, AppliedProject]
) -> None:
    installs = stacks[INSTALLS]
    installs.up(**sections(INSTALLS))
    shared, before = cluster.operator(), of_stack(installs.objects(), INSTALLS)
    assert None not in shared.values()
    with pytest.raises(UpError, match=r"operator.install = 'never'(?s:.*)make down"):
        installs.up(**{**sections(INSTALLS), "operator.install": "never"})
    assert (cluster.operator(), of_stack(installs.objects(), INSTALLS)) == (shared, before)
    down(installs)
    assert cluster.operator() == dict.fromkeys(shared)
