"""`make down` asks who else uses a shared cluster, whatever else the stack file says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import ConfigException

from infra import dependents
from infra.config import ConfigError
from infra.config.cluster_access import ASKED_FOR
from infra.config.load import Sections
from infra.config.operator import OperatorApi
from infra.objects import job_kinds
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi, path
from infra.objects.job_kinds import DEFINITION, JOBSET, PYTORCHJOB, SHARED, TRAINJOB
from infra.objects.kinds import CONFIG_MAP, DEPLOYMENT, JOB, POD, SECRET, Kind
from infra.objects.look import READY, ForbiddenError, UnknownError
from tests.unit.infra.objects.played_api import Request, listed, look, play, played

KUBECONFIG = "/etc/there.yaml"
OPERATOR = "Deployment/kubeflow/operator"
CLUSTER = {"kind": "existing", "kubeconfig": KUBECONFIG, "context": "shared"}
WRONG: dict[str, dict[str, Any]] = {
    **{name: {name: {"nmae": 1}} for name in Sections.model_fields if name not in ASKED_FOR},
    "no image for a cluster elsewhere": {"job": {"name": "mnist"}},
    "context gone": {"image": {"context": "../gone"}},
    "Dockerfile gone": {"image": {"dockerfile": "../gone/Dockerfile"}},
}
"""What may be wrong in a stack file without being in the way of a destruction."""

Written = Callable[..., Path]


def definitions(*kinds: Kind) -> list[str]:
    return [f"{DEFINITION}/{each.crd}" for each in kinds]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes the file of stack `dev`."""

    def write(**sections: Any) -> Path:
        config = {f"trainstack:{name}": each for name, each in sections.items()}
        file = tmp_path / "Pulumi.dev.yaml"
        file.write_text(yaml.safe_dump({"config": config}))
        return file

    return write


@pytest.mark.parametrize("name", WRONG)
def test_only_the_cluster_of_the_stack_file_counts(
    name: str, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ApiAddress] = []
    empty = played(lambda asked: "ok" if asked.path == READY else listed())

    def at(address: ApiAddress, *_: object) -> ClusterApi:
        asked.append(address)
        return empty

    monkeypatch.setattr(ClusterApi, "at", at)
    file = written(cluster=CLUSTER, **WRONG[name])
    assert dependents.of_stack(file, [OPERATOR], print) == {
        "jobs": [],
        "queues": [],
        "namespaces": {},
        "claims": {},
    }
    assert asked == [ApiAddress(KUBECONFIG, "shared")]


@pytest.mark.parametrize("section", ASKED_FOR)
def test_a_section_that_is_needed_and_wrong_ends_with_a_sentence(section: str, written: Written) -> None:
    with pytest.raises(ConfigError, match="fix: ") as refused:
        dependents.of_stack(written(**{section: {"nmae": 1}}), [], print)
    assert f"trainstack:{section}" in str(refused.value)


def test_of_a_cluster_that_cannot_be_reached_nothing_is_said(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make down` left its namespaces there for good then, as if others used them."""

    def refuse(address: ApiAddress, *_: object) -> None:
        raise ConfigException("no such context")

    monkeypatch.setattr(ClusterApi, "at", refuse)
    with pytest.raises(UnknownError, match=r"(?s)the cluster cannot be asked.*no such context.*fix: "):
        dependents.of_stack(written(cluster=CLUSTER), [OPERATOR], print)


@pytest.mark.parametrize(
    ("api", "own", "kinds"),
    [
        (OperatorApi.V1, [], []),
        (OperatorApi.V2, [], []),
        (OperatorApi.V1, [OPERATOR], [PYTORCHJOB]),
        (OperatorApi.V2, [OPERATOR], [TRAINJOB, JOBSET]),
        (OperatorApi.V1, [OPERATOR, *definitions(TRAINJOB, JOBSET)], [PYTORCHJOB, TRAINJOB, JOBSET]),
        (OperatorApi.V2, [OPERATOR, *definitions(PYTORCHJOB)], [PYTORCHJOB, TRAINJOB, JOBSET]),
    ],
)
def test_the_kinds_are_those_of_the_stacks_operator_and_those_that_the_stack_has_defined(
    api: OperatorApi, own: list[str], kinds: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = play(monkeypatch, lambda _: listed())
    dependents.users(look(), own, api)
    assert [each.path for each in asked] == [path(each) for each in kinds]


OURS, THEIRS = {"name": "ours", "namespace": "a"}, {"name": "theirs", "namespace": "a"}


@pytest.mark.parametrize(
    "kind", [*dependents.NAMESPACED, *dependents.OF_A_NAMESPACE], ids=lambda kind: kind.kind
)
def test_others_objects_of_each_kind_are_found_in_a_namespace(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {path(kind, "a"): listed({"metadata": OURS}, {"metadata": THEIRS})}
    asked = play(monkeypatch, lambda request: there.get(request.path, listed()))
    found = dependents.of(look(), ["Namespace/a"], [f"{kind.kind}/a/ours"])
    assert found == [f"{kind.kind}/a/theirs"]
    kinds = [*dependents.NAMESPACED, *dependents.OF_A_NAMESPACE]
    assert len({each.path for each in asked} - {path(CONFIG_MAP, "default")}) == len(kinds)


def test_a_kind_that_nobody_has_defined_has_no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, lambda _: 404)
    assert dependents.of(look(), definitions(PYTORCHJOB), []) == []


def test_jobs_that_may_not_be_listed_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, lambda _: 403)
    with pytest.raises(ForbiddenError, match=r"list pytorchjobs\.kubeflow\.org in the whole cluster"):
        dependents.of(look(), definitions(PYTORCHJOB), [])
    (told,) = dependents.users(look(), definitions(PYTORCHJOB))["jobs"]
    assert told.startswith("unknown: this user may not list pytorchjobs")


CLAIM = "PersistentVolumeClaim/a/models"


def mounts(name: str, claim: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]},
    }


def test_others_pods_that_mount_a_claim_of_the_stacks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace is not the stack's: nobody asks what else is in it."""
    Cluster(monkeypatch, {POD: [mounts("theirs", "models"), mounts("elsewhere", "data")]})
    assert dependents.users(look(), [CLAIM]) == {
        "jobs": [],
        "queues": [],
        "namespaces": {},
        "claims": {CLAIM: ["Pod/a/theirs"]},
    }


def test_pods_that_may_not_be_listed_may_mount_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, lambda asked: 403 if asked.path == path(POD, "a") else listed())
    (told,) = dependents.users(look(), [CLAIM])["claims"][CLAIM]
    assert told.startswith("unknown: this user may not list pods in namespace a")


def owned(name: str, *owners: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "ownerReferences": list(owners), **metadata}}


def owner(kind: str, api_version: str, name: str = "theirs") -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}"}


def owner_of(kind: Kind, name: str = "theirs") -> dict[str, str]:
    return owner(kind.kind, kind.api_version, name)


class Cluster:
    """Holds `objects`, by kind; every other kind is served, but for those that are `unknown` to the server."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        objects: dict[Kind, list[dict[str, Any]]],
        unknown: Collection[Kind] = (),
        in_default: Collection[dict[str, Any]] | int = (),
    ) -> None:
        self.objects, self.unknown, self.in_default = objects, unknown, in_default
        play(monkeypatch, self.answer)

    def answer(self, request: Request) -> object:
        if request.path == path(CONFIG_MAP, "default"):
            return self.in_default if isinstance(self.in_default, int) else listed(*self.in_default)
        if any(request.path in (path(each), path(each, "a")) for each in self.unknown):
            return 404
        found = [each for kind, each in self.objects.items() if request.path in (path(kind), path(kind, "a"))]
        return listed(*found[0]) if found else listed()


FOREIGN = {
    "Katib": owner("Trial", "kubeflow.org/v1beta1"),
    "Argo": owner("Workflow", "argoproj.io/v1alpha1"),
    "Ray": owner("RayCluster", "ray.io/v1"),
    "TFJob": owner("TFJob", "kubeflow.org/v1"),
    "KServe": owner("InferenceService", "serving.kserve.io/v1beta1"),
    "a kind of the same name": owner("Job", "batch.volcano.sh/v1alpha1"),
    "a group of the same kind": owner("PyTorchJob", "training.example/v1"),
}
"""Owners of kinds that nobody asks about."""


@pytest.mark.parametrize("owner", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("kind", dependents.OF_A_NAMESPACE, ids=lambda kind: kind.kind)
def test_what_an_owner_of_a_kind_not_asked_about_has_made_counts(
    kind: Kind, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, {kind: [owned("made", owner)]})
    found = [f"{kind.kind}/a/made"]
    assert dependents.of(look(), definitions(kind), ["Namespace/a"]) == found
    assert dependents.of(look(), ["Namespace/a"], ["Namespace/a"]) == found


@pytest.mark.parametrize("owner", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("kind", dependents.NAMESPACED, ids=lambda kind: kind.kind)
def test_a_namespace_with_what_another_kind_has_made_is_not_empty(
    kind: Kind, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, {kind: [owned("made", owner)]})
    assert dependents.of(look(), ["Namespace/a"], []) == [f"{kind.kind}/a/made"]


@pytest.mark.parametrize(
    "kind", [*dependents.NAMESPACED, *dependents.OF_A_NAMESPACE], ids=lambda kind: kind.kind
)
def test_what_another_of_the_listed_objects_has_made_is_told_once(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the owner, others' or the stack's."""
    maker = DEPLOYMENT if kind != DEPLOYMENT else JOB
    theirs = {"metadata": {"name": "theirs", "namespace": "a"}}
    Cluster(monkeypatch, {maker: [theirs], kind: [owned("made", owner_of(maker))]})
    found = dependents.of(look(), ["Namespace/a"], [])
    assert found == [f"{maker.kind}/a/theirs"]


@pytest.mark.parametrize("job", SHARED, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("kind", job_kinds.GANG_KINDS, ids=lambda kind: kind.kind)
def test_gangs_of_others_jobs_keep_the_scheduler_and_those_of_the_stacks_do_not(
    kind: Kind, job: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [owned("theirs", owner_of(job)), owned("ours", owner_of(job, "ours"))]
    Cluster(monkeypatch, {kind: made})
    own = [f"{job.kind}/a/ours"]
    assert dependents.of(look(), definitions(*job_kinds.GANG_KINDS), own) == [f"{kind.kind}/a/theirs"]


def test_what_the_stack_and_somebody_else_own_stays_with_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    both = owned("both", owner_of(PYTORCHJOB, "ours"), FOREIGN["Katib"])
    Cluster(monkeypatch, {POD: [both]})
    assert dependents.of(look(), ["Namespace/a"], ["PyTorchJob/a/ours"]) == ["Pod/a/both"]


def test_the_parts_of_a_kind_that_the_server_has_in_another_version_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, {JOB: [owned("node", owner("JobSet", f"{JOBSET.group}/v2"))]}, unknown=[JOBSET])
    assert dependents.of(look(), ["Namespace/a"], []) == ["Job/a/node"]


PASSED_ON = {
    "Kubernetes": [{"metadata": {"name": "kube-root-ca.crt", "namespace": "a"}}],
    "Istio": [{"metadata": {"name": "istio-ca-root-cert", "namespace": "a"}}],
    "OpenShift": [{"metadata": {"name": "openshift-service-ca.crt", "namespace": "a"}}],
    "a copy of the one in default": [
        {**owned("bundle", owner("Bundle", "trust.cert-manager.io/v1alpha1")), "data": {"ca.crt": "x"}}
    ],
}
"""ConfigMaps that a controller puts into every namespace."""
IN_DEFAULT = [{"metadata": {"name": "bundle", "namespace": "default"}, "data": {"ca.crt": "x"}}]


@pytest.mark.parametrize("maps", PASSED_ON.values(), ids=PASSED_ON)
def test_what_is_in_every_namespace_is_nobodys(
    maps: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, {CONFIG_MAP: maps}, in_default=IN_DEFAULT)
    assert dependents.of(look(), ["Namespace/a"], []) == []


@pytest.mark.parametrize(
    ("in_default", "data"),
    [(IN_DEFAULT, {"ca.crt": "y"}), ([], {"ca.crt": "x"}), (403, {"ca.crt": "x"})],
    ids=["other content", "not there", "not to be read"],
)
def test_a_config_map_is_a_copy_only_where_that_is_seen(
    in_default: list[dict[str, Any]] | int, data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = {"metadata": {"name": "bundle", "namespace": "a"}, "data": data}
    Cluster(monkeypatch, {CONFIG_MAP: [notes]}, in_default=in_default)
    assert dependents.of(look(), ["Namespace/a"], []) == ["ConfigMap/a/bundle"]


def test_the_config_maps_of_default_are_no_copies_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, {}, in_default=IN_DEFAULT)
    assert dependents.of(look(), ["Namespace/default"], []) == ["ConfigMap/default/bundle"]


@pytest.mark.parametrize("annotation", sorted(dependents.TOKENS))
def test_tokens_that_each_namespace_has_are_nobodys(annotation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"annotations": {annotation: "default"}}
    Cluster(monkeypatch, {SECRET: [owned("default-dockercfg-x", owner("ServiceAccount", "v1"), **given)]})
    assert dependents.of(look(), ["Namespace/a"], []) == []
