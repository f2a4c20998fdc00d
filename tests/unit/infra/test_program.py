"""The whole program under Pulumi mocks."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import agreed, dataset, decision, paths, program, stack_plan
from infra.clusters import foreign_objects, selection
from infra.clusters.discovery import ClusterContents
from infra.clusters.kind import ownership
from infra.clusters.kind.component import OldObjectsError
from infra.clusters.kind.config import KindConfig
from infra.clusters.kind.ownership import Standing
from infra.config import ConfigError
from infra.config.training import Dataset
from infra.objects import adoption, owner
from infra.objects.labels import OWNER, STACK
from infra.objects.stack_state import READ, StackState
from infra.training_operator.plan import plan
from tests.unit.infra.recorder import OUTPUTS, OWNER_ID, PROGRAM, Recorder, hand_over, recording, run_program
from tests.unit.infra.samples import IMAGE, JOB, stack

CLUSTER = "pulumi-python:dynamic/trainstack:KindCluster"
RUN = "pulumi-python:dynamic/trainstack:Run"


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    for name in ("NODE_IMAGE", "OPERATOR_IMAGE", "INIT_IMAGE", "REGISTRY_IMAGE"):
        monkeypatch.delenv(f"TRAINSTACK_{name}", raising=False)
    monkeypatch.setenv("PULUMI_CONFIG", "{}")
    return recording(monkeypatch, tmp_path)


def configured(**sections: Any) -> None:
    """Hand `sections` over as the language host does."""
    hand_over(sections, Path(pulumi.get_root_directory()))


@pytest.fixture
def dev(recorder: Recorder) -> Recorder:
    configured(job=JOB)
    run_program()
    return recorder


def _selectors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, each in value.items():
            if "selector" in key.lower():
                yield each
            yield from _selectors(each)
    elif isinstance(value, list):
        for each in value:
            yield from _selectors(each)


def test_no_selector_names_the_mark(dev: Recorder) -> None:
    selectors = [each for manifest in dev.manifests().values() for each in _selectors(manifest)]
    assert selectors
    assert not [each for each in selectors if OWNER in json.dumps(each) or STACK in json.dumps(each)]


def test_another_cluster_is_refused_before_anything_is_registered(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = KindConfig(name="old", stack="dev").encode()
    held = {"urn": {"type": CLUSTER, "outputs": {"config": config}}}
    monkeypatch.setattr(recorder, "call", lambda args: ({"outputs": held} if args.token == READ else {}, []))
    monkeypatch.setattr(ownership, "own_nodes", lambda name, uid=None: [{"Name": name}])
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: ["configmaps/default/notes"])
    configured(job=JOB)
    with pytest.raises(pulumi.RunError, match=r"(?s)cluster.name: old -> trainstack-dev.*default/notes"):
        run_program()
    assert recorder.registered == []


@pytest.mark.parametrize("others", [[], ["configmaps/default/notes"]])
def test_a_cluster_that_is_made_anew_is_refused_before_anything_is_registered(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: list[str]
) -> None:
    """What is not the stack's is named; without that `make up` is told to go on by itself."""
    config = KindConfig(name="trainstack-dev", stack="dev", workers=1).encode()
    space = {"kind": "Namespace", "metadata": {"name": "kubeflow"}}
    held = {
        "cluster": {"type": CLUSTER, "outputs": {"config": config}},
        "object": {"type": f"{agreed.OBJECT}core/v1:Namespace", "outputs": space},
    }
    told = tmp_path / "told"
    monkeypatch.setenv(agreed.LOST_OBJECTS, str(told))
    monkeypatch.setattr(recorder, "call", lambda args: ({"outputs": held} if args.token == READ else {}, []))
    monkeypatch.setattr(ownership, "own_nodes", lambda name, uid=None: [{"Name": name}])
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: others)
    configured(job=JOB)
    with pytest.raises(pulumi.RunError, match="default/notes" if others else "`make up` goes on by itself"):
        run_program()
    assert recorder.registered == []
    assert told.exists() is not bool(others)


@pytest.mark.parametrize(
    "held", [{}, {"urn": {"type": agreed.OWNER, "outputs": {"owner": OWNER_ID}}}], ids=["lost", "owner"]
)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_finished_cluster_that_the_state_lacks_is_refused_before_anything_is_registered(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, held: dict[str, Any], replaces: bool
) -> None:
    """An owner's id that was made for the refused run could not be given back by ADOPT any more."""
    monkeypatch.setattr(recorder, "call", lambda args: ({"outputs": held} if args.token == READ else {}, []))
    monkeypatch.setattr(ownership, "standing", lambda name: Standing.FINISHED)
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: ["namespaces/precious"])
    if replaces:
        monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    configured(job=JOB)
    if replaces:
        run_program()
        assert len(recorder.of(CLUSTER)) == 1
        return
    known = OWNER_ID if held else "<owner>"
    with pytest.raises(
        pulumi.RunError, match=f"(?s)trainstack-dev exists.*namespaces/precious.*ADOPT={known}"
    ):
        run_program()
    assert recorder.registered == []


@pytest.mark.parametrize("uid", ["one", "another"])
def test_the_program_finishes_the_cluster_that_the_state_has(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uid: str
) -> None:
    monkeypatch.setattr(paths, "STATE", tmp_path / ".trainstack")
    marker = paths.marker("trainstack-dev")
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"id": uid, "finished": False}))
    configured(job=JOB)
    run_program()
    found = ownership.read_marker("trainstack-dev")
    assert found
    assert found.finished is (uid == OUTPUTS[CLUSTER]["instance"])


@pytest.mark.parametrize(
    ("jobs", "paths_of"),
    [
        ([{"name": "one"}], {"one": "mnist_cnn.pt"}),
        ([{"name": "one", "model": "net.bin"}], {"one": "net.bin"}),
        ([{"name": "one", "model": None}], {"one": None}),
        (
            [{"name": "one", "model": "net.bin"}, {"name": "two"}, {"name": "three", "model": None}],
            {"one": "runs/RUN/net.bin", "two": "runs/RUN/mnist_cnn.pt", "three": None},
        ),
    ],
)
def test_the_models_path_follows_the_jobs_file(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    jobs: list[dict[str, Any]],
    paths_of: dict[str, str | None],
) -> None:
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    configured(**({"job": jobs[0]} if len(jobs) == 1 else {"jobs": jobs}))
    seen: dict[str, str | None] = {}

    @pulumi.runtime.test
    def program() -> pulumi.Output[None]:
        runpy.run_path(str(PROGRAM), run_name="__main__")
        jobs = pulumi.Output.from_input(exported["jobs"])
        return jobs.apply(lambda known: seen.update({name: known[name]["modelPath"] for name in known}))

    program()
    runs = {args.inputs["job"]: args.inputs["run"] for args in recorder.of(RUN)}
    folder = Path("models/dev")
    wanted = {
        name: str(folder / file.replace("RUN", runs[name])) if file else None
        for name, file in paths_of.items()
    }
    assert seen == wanted


@pytest.mark.parametrize(
    ("chosen", "found", "said"),
    [("auto", Dataset.DIGITS, True), ("auto", Dataset.MNIST, False), ("digits", Dataset.DIGITS, False)],
)
def test_a_data_set_that_no_review_has_shown_is_said(
    monkeypatch: pytest.MonkeyPatch, chosen: str, found: Dataset, said: bool
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(dataset, "resolve", lambda *_: found)
    monkeypatch.setattr(pulumi.log, "info", messages.append)
    job = {**JOB, "training": {"dataset": chosen}}
    assert program.datasets(stack(job=job)) == {"pytorch-simple": found}
    assert [("auto is digits" in each, "shows mnist" in each) for each in messages] == [(True, True)] * said


BARE: tuple[tuple[ClusterContents, str], ...] = (
    (ClusterContents(), "install: always"),
    (ClusterContents(crd=True, operator=True), "kubectl create namespace kubeflow"),
)


@pytest.mark.parametrize(("found", "fix"), BARE)
def test_what_no_review_shows_is_said_or_refused(
    monkeypatch: pytest.MonkeyPatch, found: ClusterContents, fix: str
) -> None:
    """A review takes the namespace and the operator to be in a cluster of others."""
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", messages.append)
    given: dict[str, Any] = {
        "cluster": {"kind": "existing", "context": "here"},
        "image": {"reference": IMAGE},
    }
    known, protected = stack(**given), stack(**given, protected=True)
    planned = stack_plan.of(known, plan(known, found))
    nothing, namespace = StackState(), StackState(objects=frozenset({"Namespace/kubeflow"}))
    decision.ensure_shown(known, planned, nothing, is_there=True)
    decision.ensure_shown(protected, planned, nothing, is_there=False)
    assert ["Namespace/kubeflow" in each for each in messages] == [True, True]
    with pytest.raises(ConfigError, match="Namespace/kubeflow") as refused:
        decision.ensure_shown(protected, planned, nothing, is_there=True)
    assert fix in str(refused.value)
    if found.operator:
        decision.ensure_shown(protected, planned, namespace, is_there=True)
        assert len(messages) == 2


@pytest.mark.parametrize(
    "error",
    [
        ownership.ForeignClusterError("another's"),
        ownership.AnotherEngineError("elsewhere"),
        OldObjectsError("old objects"),
        owner.OwnerIdError("no id"),
        adoption.OthersObjectsError("others'"),
        adoption.LostObjectsError("lost"),
    ],
)
def test_a_cluster_that_is_not_ours_ends_it_with_a_sentence(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*asked: object) -> None:
        raise error

    monkeypatch.setattr(selection, "register", refuse)
    configured(job=JOB)
    with pytest.raises(pulumi.RunError, match=str(error)):
        run_program()
