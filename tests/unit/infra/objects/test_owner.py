"""The stack's mark: on every object, in no selector, and what is told from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra import agreed
from infra.cluster_kinds import ClusterKind
from infra.objects import adoption, owner, stack_state
from infra.objects.adoption import Ownership, Survey
from infra.objects.labels import OWNER, STACK, is_copied
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from tests.unit.infra.objects.played_api import Request, look, play

MINE, OTHERS = "0123456789abcdef", "f" * 16


def live(name: str = "kubeflow", **labels: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def marked(identity: str) -> dict[str, str]:
    return {STACK: "gpu", OWNER: identity}


def test_an_id_is_random_and_stays() -> None:
    provider = owner.OwnerProvider()
    ids = {provider.create({"stack": "dev"}).id for _ in range(10)}
    assert len(ids) == 10
    assert all(agreed.OWNER_ID.fullmatch(each) for each in ids)
    old = {"stack": "dev", "owner": MINE}
    assert not provider.diff(MINE, old, {"stack": "dev"}).changes
    assert provider.read(MINE, old).outs == old


def test_an_id_that_is_given_back_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(agreed.ADOPT, MINE)
    assert (owner.OwnerProvider().create({"stack": "dev"}).outs or {})["owner"] == MINE


@pytest.mark.parametrize("given", ["0123", "G" * 16, f"{MINE}0", "yes"])
def test_what_is_no_id_is_refused(given: str) -> None:
    with pytest.raises(owner.OwnerIdError, match="make status"):
        owner.id_to_adopt({agreed.ADOPT: given})


@pytest.mark.parametrize(
    ("labels", "identity", "own_cluster", "ours"),
    [
        (marked(MINE), MINE, False, True),
        (marked(MINE), MINE, True, True),
        (marked(OTHERS), MINE, False, False),
        (marked(OTHERS), MINE, True, False),
        (marked(OTHERS), None, True, False),
        ({STACK: "gpu"}, MINE, False, False),
        ({STACK: "gpu"}, MINE, True, True),
        ({}, MINE, False, False),
        ({}, None, True, True),
    ],
)
def test_whose_an_object_is(
    labels: dict[str, str], identity: str | None, own_cluster: bool, ours: bool
) -> None:
    assert Ownership(StackState(), identity, own_cluster).is_ours(live(**labels)) is ours


def test_what_the_state_holds_is_ours_whatever_its_mark() -> None:
    held = StackState(objects=frozenset({"Namespace/kubeflow"}))
    assert Ownership(held, MINE, own_cluster=False).is_ours(live(**marked(OTHERS)))


MARK: dict[str, object] = {"f:metadata": {"f:labels": {f"f:{OWNER}": {}}}}
OTHER_LABEL: dict[str, object] = {"f:metadata": {"f:labels": {"f:app": {}}}}


def written(*entries: tuple[str, dict[str, object]]) -> Manifest:
    """A live object with our mark, and who has written what of it."""
    found = live(**marked(MINE))
    found["metadata"]["managedFields"] = [
        {"manager": name, "operation": "Update", "fieldsV1": fields} for name, fields in entries
    ]
    return found


@pytest.mark.parametrize(
    "name", ["pulumi-kubernetes", "pulumi-kubernetes-0a1b2c3d", "pulumi-resource-kubernetes"]
)
def test_a_mark_that_the_plugin_has_written_is_believed(name: str) -> None:
    ours = written(("kubectl-edit", OTHER_LABEL), (name, MARK))
    assert Ownership(StackState(), MINE, own_cluster=False).is_ours(ours)
    assert not is_copied(ours)


@pytest.mark.parametrize(
    "entries", [[("kubectl-create", MARK)], [("kubectl", MARK), ("pulumi-kubernetes", OTHER_LABEL)]]
)
@pytest.mark.parametrize("own_cluster", [True, False])
def test_a_copy_of_the_mark_is_not_believed_until_the_user_says_so(
    entries: list[tuple[str, dict[str, object]]], own_cluster: bool
) -> None:
    copy = written(*entries)
    assert is_copied(copy)
    assert not Ownership(StackState(), MINE, own_cluster).is_ours(copy)
    assert Ownership(StackState(), MINE, own_cluster, given=True).is_ours(copy)
    with pytest.raises(adoption.OthersObjectsError, match=f"owner {MINE}; .* is a copy(?s:.*)ADOPT={MINE}"):
        adoption.refuse_others(Survey(others=(copy,)), "gpu")


def test_the_state_tells_id_objects_and_cluster() -> None:
    outputs = {"kind": "Namespace", "metadata": {"name": "kubeflow"}}
    held = stack_state.from_outputs(
        {
            "urn:1": {"type": agreed.OWNER, "outputs": {"owner": MINE}},
            "urn:2": {"type": "kubernetes:core/v1:Namespace", "outputs": outputs},
            "urn:3": {"type": agreed.PROVIDER, "outputs": {}},
            "urn:4": {"type": ClusterKind.KIND.resource, "outputs": {"config": "{}"}},
            "urn:5": {"type": "trainstack:job:Job"},
        }
    )
    objects = frozenset({"Namespace/kubeflow"})
    assert held == StackState(MINE, objects, cluster=True, clusters={ClusterKind.KIND: {"config": "{}"}})
    assert stack_state.from_outputs({}) == StackState()


def test_lost_and_others_objects_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [live("mine", **marked(MINE)), live("theirs", **marked(OTHERS))]
    monkeypatch.setattr(adoption, "_live", lambda look, planned: there)
    found = adoption.survey(look(), [live()], Ownership(StackState(), MINE, False))
    assert found == Survey(lost=(there[0],), others=(there[1],), live=tuple(there))


def test_others_objects_are_refused_by_name() -> None:
    found = Survey(others=(live("kubeflow", **marked(OTHERS)), live("data")))
    with pytest.raises(adoption.OthersObjectsError) as refused:
        adoption.refuse_others(found, "gpu")
    for said in (
        "Namespace/kubeflow (stack gpu, owner ffff",
        "Namespace/data (without a mark)",
        f"ADOPT={OTHERS}",
    ):
        assert said in str(refused.value)


def test_lost_objects_are_handed_to_make_up(tmp_path: Path) -> None:
    file, found = tmp_path / "lost", Survey(lost=(live("kubeflow", **marked(MINE)),))
    owned = Ownership(StackState(cluster=True), MINE, False)
    with pytest.raises(adoption.LostObjectsError, match="make up STACK=gpu puts"):
        adoption.report_lost(found, owned, "gpu", {agreed.LOST_OBJECTS: str(file)})
    assert json.loads(file.read_text()) == {"objects": list(found.lost)}
    assert not adoption.report_lost(found, owned, "gpu", {agreed.ADOPTING: "yes"})
    assert not adoption.report_lost(Survey(), owned, "gpu", {})


def test_without_a_state_the_cluster_comes_first(tmp_path: Path) -> None:
    file, found = tmp_path / "lost", Survey(lost=(live("kubeflow", **marked(MINE)),))
    given = Ownership(StackState(), MINE, True)
    assert adoption.report_lost(found, given, "gpu", {agreed.LOST_OBJECTS: str(file)})
    with pytest.raises(adoption.LostObjectsError, match=f"ADOPT={MINE}"):
        adoption.report_lost(found, given, "gpu", {})
    with pytest.raises(adoption.LostObjectsError, match="ADOPT="):
        adoption.report_lost(
            found, Ownership(StackState(), None, True), "gpu", {agreed.LOST_OBJECTS: str(file)}
        )


# Objects of each scope and group, whose namespace is `b` or none, and where they are.
THERE = {
    ("v1", "Namespace"): "/api/v1/namespaces/kubeflow",
    ("v1", "PersistentVolume"): "/api/v1/persistentvolumes/kubeflow",
    ("v1", "PersistentVolumeClaim"): "/api/v1/namespaces/b/persistentvolumeclaims/kubeflow",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/b/deployments/kubeflow",
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
    ): "/apis/networking.k8s.io/v1/namespaces/b/networkpolicies/kubeflow",
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
    ): "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubeflow",
}
MISSING = {
    ("v1", "ConfigMap"): "/api/v1/namespaces/b/configmaps/kubeflow",
    ("kubeflow.org/v1", "PyTorchJob"): "/apis/kubeflow.org/v1/namespaces/b/pytorchjobs/kubeflow",
}


def test_objects_of_any_kind_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> object:
        assert request.path in {*THERE.values(), *MISSING.values()}
        return live(**marked(MINE)) if request.path in THERE.values() else 404

    play(monkeypatch, answer)
    planned: list[Manifest] = [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "kubeflow", **({"namespace": "b"} if "/b/" in path else {})},
        }
        for (version, kind), path in {**THERE, **MISSING}.items()
    ]
    found = adoption.survey(look(), planned, Ownership(StackState(), MINE, False))
    assert [each["kind"] for each in found.lost] == [kind for _, kind in THERE]
    assert found.others == ()
