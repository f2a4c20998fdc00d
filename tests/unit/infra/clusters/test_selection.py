"""A stack that leaves its own cluster for another one: what is in the old cluster is not lost unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import agreed, paths
from infra.cluster_kinds import ClusterKind
from infra.clusters import foreign_objects, replacement
from infra.clusters.discovery import Question
from infra.clusters.kind.config import KindConfig
from infra.clusters.selection import ensure_offered, ensure_old_cluster_may_go, examine, look, question
from infra.config import ConfigError, Stack
from infra.config.names import quantity
from infra.objects.look import Look, UnknownError
from infra.objects.stack_state import StackState
from tests.unit.infra.clusters.kind.standin import Engine, node
from tests.unit.infra.samples import stack

OLD = "trainstack-dev"
IMAGE = {"repository": "registry.example/trainer"}
NOTES = "configmaps/default/notes"
CONFIG = KindConfig(name=OLD, stack="dev").encode()
HELD = {
    kind: StackState(clusters={kind: {"name": OLD, "ours": True, "config": CONFIG}})
    for kind in ClusterKind
    if kind.is_ours
}
"""What the state holds of each kind of cluster that a stack makes."""
OTHERS = [(old, new) for old in HELD for new in ClusterKind if new is not old]


def with_kind(kind: ClusterKind, **cluster: Any) -> Stack:
    image: dict[str, Any] = {"image": IMAGE} if kind is ClusterKind.EXISTING else {}
    return stack(cluster={"kind": kind.value, **cluster}, **image)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    made = Engine(monkeypatch, tmp_path)
    paths.marker(OLD).parent.mkdir(parents=True)
    paths.marker(OLD).write_text('{"id": "one"}')
    made.nodes = [node(f"{OLD}-control-plane", paths.marker(OLD))]
    return made


@pytest.fixture
def asked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters that were asked for foreign objects; each holds one."""
    clusters: list[str] = []

    def titles(asked: Look, stack: str) -> list[str]:
        clusters.append(Path(str(asked.address.kubeconfig)).stem)
        return [NOTES]

    monkeypatch.setattr(foreign_objects, "titles", titles)
    return clusters


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_another_kind_is_refused_while_the_old_cluster_holds_what_is_not_ours(
    asked: list[str],
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    old: ClusterKind,
    new: ClusterKind,
) -> None:
    with pytest.raises(replacement.ReplacementRefusedError) as refused:
        ensure_old_cluster_may_go(with_kind(new), HELD[old])
    for part in (f"cluster.kind: {old} -> {new}", NOTES, "REPLACE_CLUSTER=yes", OLD):
        assert part in str(refused.value)
    assert warnings == []

    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    ensure_old_cluster_may_go(with_kind(new), HELD[old])
    assert [(NOTES in said, "models and data" in said) for said in warnings] == [(True, True)]
    assert asked == [OLD, OLD]


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_a_cluster_that_does_not_answer_is_not_lost_unasked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, old: ClusterKind, new: ClusterKind
) -> None:
    def silent(address: Any, stack: str) -> list[str]:
        raise UnknownError("connection refused")

    monkeypatch.setattr(foreign_objects, "titles", silent)
    with pytest.raises(replacement.ReplacementRefusedError, match="connection refused"):
        ensure_old_cluster_may_go(with_kind(new), HELD[old])


@pytest.mark.parametrize("kind", ClusterKind)
def test_a_stack_that_keeps_its_cluster_asks_nobody(asked: list[str], kind: ClusterKind) -> None:
    ensure_old_cluster_may_go(with_kind(kind), HELD.get(kind, StackState()))
    assert asked == []


@pytest.mark.parametrize("kind", ClusterKind)
def test_a_microk8s_that_was_there_before_is_left_as_it_is(asked: list[str], kind: ClusterKind) -> None:
    ensure_old_cluster_may_go(
        with_kind(kind), StackState(clusters={ClusterKind.MICROK8S: {"name": OLD, "ours": False}})
    )
    assert asked == []


def test_a_cluster_deleted_by_hand_holds_nothing(asked: list[str], engine: Engine) -> None:
    engine.nodes = []
    ensure_old_cluster_may_go(with_kind(ClusterKind.MICROK8S), HELD[ClusterKind.KIND])
    assert asked == []


CLAIM = {"kind": "claim", "claim": "theirs"}
CLASS = {"kind": "class", "storageClass": "fast"}
FOLDER = [{"path": "/data", "folder": "/var/lib/trainstack/data"}]
GANG = {"runPolicy": {"schedulingPolicy": {"queue": "first"}}}
NEVER = {"install": "never"}
GPU = {"name": "x", "resources": {"gpu": 1}}
BOTH = frozenset({"team", "kubeflow"})


@pytest.mark.parametrize(
    ("sections", "asked"),
    [
        ({}, Question(BOTH, operator=True, nodes=True)),
        ({"operator": NEVER}, Question(frozenset({"team"}), operator=False, nodes=True)),
        ({"operator": NEVER, "storage": CLASS}, Question(frozenset({"team"}), operator=False, nodes=False)),
        ({"operator": NEVER, "storage": CLAIM}, Question(frozenset(), operator=False, nodes=False)),
        ({"storage": CLAIM}, Question(frozenset({"kubeflow"}), operator=True, nodes=False)),
        (
            {"operator": NEVER, "storage": CLAIM, "job": {"name": "x", "data": FOLDER}},
            Question(frozenset(), operator=False, nodes=True),
        ),
        (
            {"operator": NEVER, "storage": CLAIM, "job": {"name": "x", "resources": {"gpu": 1}}},
            Question(frozenset(), operator=False, nodes=True),
        ),
        (
            {"operator": NEVER, "storage": CLAIM, "job": {"name": "x", "resources": {"amd.com/gpu": 1}}},
            Question(frozenset(), operator=False, nodes=True),
        ),
        (
            {"operator": NEVER, "storage": CLAIM, "job": {"name": "x", **GANG}},
            Question(frozenset(), operator=True, nodes=False),
        ),
        (
            {"operator": {**NEVER, "queue": "kueue"}, "storage": CLAIM},
            Question(frozenset(), operator=False, nodes=False, kueue=True),
        ),
        (
            {"operator": {"queue": "kueue"}, "storage": CLAIM},
            Question(frozenset({"kubeflow", "kueue-system"}), operator=True, nodes=False, kueue=True),
        ),
    ],
)
def test_a_cluster_is_asked_only_what_has_to_be_known(sections: dict[str, Any], asked: Question) -> None:
    known = stack(cluster={"kind": "existing", "namespace": "team"}, image=IMAGE, **sections)
    assert question(known, lambda _: False) == asked


def test_a_namespace_that_the_stack_made_is_not_taken_for_others() -> None:
    """It would leave the state, and Pulumi would delete it with the claim."""
    known = stack(
        cluster={"kind": "existing", "namespace": "team"}, image=IMAGE, operator=NEVER, storage=CLAIM
    )
    assert question(known, lambda each: each["metadata"]["name"] == "team").namespaces == {"team"}


NAMELESS = yaml.safe_dump({"contexts": [], "clusters": [], "users": [], "current-context": ""})


@pytest.mark.parametrize("storage", [CLAIM, CLASS], ids=["given", "own"])
@pytest.mark.parametrize("text", [None, "", NAMELESS], ids=["missing", "empty", "without a cluster"])
@pytest.mark.parametrize("preview", [True, False])
def test_only_a_preview_goes_on_without_a_kubeconfig(
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    preview: bool,
    text: str | None,
    storage: dict[str, Any],
) -> None:
    """An update would take the job away through the old provider, and could not make it again."""
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    known = stack(
        cluster={"kind": "existing", "kubeconfig": str(file)}, image=IMAGE, operator=NEVER, storage=storage
    )
    if preview:
        examine(known, lambda _: False, look(known))
        assert len(warnings) == 1
    else:
        with pytest.raises((ConfigError, UnknownError)) as refused:
            examine(known, lambda _: False, look(known))
        for part in (str(file), "nothing was touched", "fix: "):
            assert part in str(refused.value)
    assert bool(warnings) is preview


@pytest.mark.parametrize(
    ("resources", "key", "name"),
    [
        ({"gpu": 2}, "gpu", "nvidia.com/gpu"),
        ({"gpu": 2, "gpuResource": "amd.com/gpu"}, "gpu", "amd.com/gpu"),
        ({"nvidia.com/mig-1g.5gb": 2}, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ({"hugepages-2Mi": "4Mi"}, "hugepages-2Mi", "hugepages-2Mi"),
    ],
)
def test_more_than_the_nodes_offer_is_refused(resources: dict[str, Any], key: str, name: str) -> None:
    found = stack(job={"name": "x", "resources": resources, "replicas": {"worker": 1}})
    wanted = 2 * quantity(str(resources[key]))
    ensure_offered(found, {name: wanted})
    few = rf"job\.resources\.{key} = .*\n.*at most {wanted - 1} {name} in this cluster; 2 replicas need {wanted}"
    with pytest.raises(ConfigError, match=few):
        ensure_offered(found, {name: wanted - 1})
    with pytest.raises(ConfigError, match=f"at most 0 {name}"):
        ensure_offered(found, {"other.example/gpu": wanted})
    ensure_offered(stack(job={"name": "x", "resources": {"ephemeral-storage": "8Gi"}}), {})


@pytest.mark.parametrize(
    ("jobs", "place"),
    [({"job": GPU}, "job"), ({"jobs": [GPU]}, r"jobs\[0\]"), ({"jobs": [{"name": "a"}, GPU]}, r"jobs\[1\]")],
)
def test_a_refusal_names_the_job_where_the_file_has_it(jobs: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError, match=rf"trainstack:{place}\.resources\.gpu = 1\n"):
        ensure_offered(stack(**jobs), {})
