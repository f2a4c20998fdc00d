"""Key `job.data`: what is refused, what the keys before it become, and what pods and volumes come of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from infra import paths, volumes
from infra.cluster_kinds import ClusterKind
from infra.clusters.kind.config import DATA
from infra.config import ConfigError, Stack
from infra.config.data_sets import SOURCES, DataSet
from infra.config.load import Sections
from infra.config.operator import OperatorApi
from infra.config.section import Outcome
from infra.job.context import context
from infra.objects.manifest import Manifest
from infra.review.key_changes import key_changes
from infra.stack_plan import ensure_allowed, job_objects
from storage.manifests import persistent_volume
from tests.unit.infra.config.test_pod_template import templates_in
from tests.unit.infra.samples import IMAGE, JOB, shown, stack

CLUSTERS: dict[str, dict[str, Any]] = {
    kind: {"cluster": {"kind": kind}, "image": {"reference": IMAGE}} for kind in ClusterKind
}
NODES_FOLDER = "/var/lib/trainstack/data"
GIVEN: dict[str, Any] = {
    "claim": "images",
    "folder": NODES_FOLDER,
    "nfs": {"server": "nfs.example", "path": "/images"},
    "configMap": "words",
}
"""A value of each source."""


def with_data(*data: dict[str, Any], kind: str = "existing", **sections: Any) -> Stack:
    return stack(**CLUSTERS[kind], **sections, job={**JOB, "data": list(data)})


def refused(*data: dict[str, Any], kind: str = "existing") -> str:
    with pytest.raises(ConfigError) as found:
        with_data(*data, kind=kind)
    return str(found.value)


def test_each_source_is_tried() -> None:
    keys = {str(each.alias) for each in DataSet.model_fields.values()}
    assert set(GIVEN) == set(SOURCES) == keys - {"path"}


@pytest.mark.parametrize("one", [None, *SOURCES])
@pytest.mark.parametrize("other", SOURCES)
def test_an_entry_has_one_source(one: str | None, other: str) -> None:
    given = {key: GIVEN[key] for key in (one, other) if key and one}
    if len(given) == 1:
        assert with_data({"path": "/data", **given}).jobs[0].data
        return
    told = refused({"path": "/data", **given})
    assert "trainstack:job.data[0]." in told
    assert "allowed: one of claim, folder, nfs, configMap in each entry" in told
    assert "fix: write " in told


@pytest.mark.parametrize("value", ["/", ".", "..", "a/", "/a/../b", "/a/..", "./a", "~/data", "//a", ""])
@pytest.mark.parametrize("kind", ClusterKind)
def test_a_folder_is_written_plainly(value: str, kind: str) -> None:
    told = refused({"path": "/data", "folder": value}, kind=kind)
    assert "trainstack:job.data[0].folder = " in told
    assert "fix: write " in told


@pytest.mark.parametrize("folder", ["data", "../photos"])
def test_only_kind_knows_this_machine(folder: str) -> None:
    assert with_data({"path": "/data", "folder": folder}, kind="kind").jobs[0].data
    for kind in (ClusterKind.EXISTING, ClusterKind.MICROK8S):
        told = refused({"path": "/data", "folder": folder}, kind=kind)
        assert f"trainstack:job.data[0].folder = '{folder}'" in told
        assert "fix: write the folder's path on the nodes" in told


@pytest.mark.parametrize("kind", ClusterKind)
def test_without_the_key_pods_see_the_clones_data_on_kind_alone(kind: str) -> None:
    default = stack(**CLUSTERS[kind], job=JOB)
    ours = [DataSet(path="/data", folder="data")] if kind == ClusterKind.KIND else []
    assert list(default.jobs[0].data or ()) == ours
    assert [each.name for each in volumes.data(default)] == ["trainstack-dev-data"][: len(ours)]
    assert volumes.data(with_data(kind=kind)) == [], "an empty list is none"


def volume_of(known: Stack) -> Manifest:
    (found,) = volumes.data(known)
    return persistent_volume(found)


def test_a_folder_of_this_machine_lies_below_what_kinds_nodes_mount() -> None:
    plain = volume_of(with_data({"path": "/data", "folder": "data"}, kind="kind"))
    assert plain["spec"]["hostPath"] == {"path": DATA}
    other = volume_of(with_data({"path": "/data", "folder": "/srv/photos"}, kind="kind"))
    name = other["metadata"]["name"]
    assert re.fullmatch(r"trainstack-dev-data-[0-9a-f]{8}", name)
    assert other["spec"]["hostPath"] == {"path": f"{DATA}/.folders/dev/{name}"}


@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize("kind", ClusterKind)
def test_a_review_renders_each_source_by_the_policies_and_looks_at_no_folder(kind: str, api: str) -> None:
    """None of the folders is on this machine."""
    data = [{"path": f"/data/{key}", key: value} for key, value in GIVEN.items()]
    known = with_data(*data, kind=kind, operator={"api": api})
    objects = shown(known)
    ensure_allowed(known, objects)
    kinds = [each["kind"] for each in objects if each["metadata"]["name"].startswith("trainstack-dev-data-")]
    assert kinds == ["PersistentVolume", "PersistentVolumeClaim"] * 2


def test_a_folder_of_the_nodes_is_held_to_the_allowed_roots() -> None:
    known = with_data({"path": "/data", "folder": "/srv/photos"})
    with pytest.raises(ConfigError, match=r"(?s)hostPath /srv/photos is not below.*allowedRoots"):
        ensure_allowed(known, shown(known))


def test_the_page_of_a_review_names_what_has_changed() -> None:
    def sections(**data: Any) -> Sections:
        return Sections.model_validate({"job": {**JOB, "data": [{"path": "/data", **data}]}})

    told = key_changes(sections(claim="images"), sections(nfs=GIVEN["nfs"]))
    assert [(each.key, each.before, each.after) for each in told] == [
        ("job.data[0].claim", "images", None),
        ("job.data[0].nfs.server", None, "nfs.example"),
        ("job.data[0].nfs.path", None, "/images"),
    ]
    assert {each.outcome for each in told} == {Outcome.JOB_REPLACED}


def test_jobs_share_the_volume_of_one_source() -> None:
    data = {name: [{"path": f"/{name}", "folder": NODES_FOLDER}] for name in ("one", "two")}
    jobs = [{**JOB, "name": name, "data": each} for name, each in data.items()]
    found = volumes.data(stack(**CLUSTERS["existing"], jobs=jobs))
    assert len(found) == 1
    several = volumes.data(with_data(*({"path": f"/{n}", "folder": f"{NODES_FOLDER}/{n}"} for n in "abc")))
    assert len({each.selector["name"] for each in several}) == 3, "no claim is bound to another's volume"


def test_a_long_stack_name_makes_no_label_that_is_too_long() -> None:
    name = "a" * 60
    given = {**CLUSTERS["existing"], "storage": {"kind": "claim", "claim": "models"}}
    job = {**JOB, "data": [{"path": "/d", "folder": NODES_FOLDER}]}
    (found,) = volumes.data(stack(name, **given, job=job))
    assert max(map(len, found.selector.values())) <= 63


@pytest.mark.parametrize("api", OperatorApi)
def test_job_pod_is_merged_over_data(api: str) -> None:
    mount = {"mountPath": "/data", "subPath": "2024", "name": "data"}
    pod = {"spec": {"containers": [{"name": "pytorch", "volumeMounts": [mount]}]}}
    job = {**JOB, "data": [{"path": "/other", "claim": "a"}], "pod": pod}
    known = stack(**CLUSTERS["existing"], operator={"api": api}, job=job)
    for each in templates_in(job_objects(known.jobs[0], context(known, IMAGE, None))):
        assert mount in each["spec"]["containers"][0]["volumeMounts"]


MOVED: list[tuple[str, str | None, str | None, str, tuple[str, str] | None]] = [
    ("existing", "/srv/a", None, "storage.dataPath", ("/data", "/srv/a")),
    ("existing", "/srv/a", "/sets", "storage.dataPath", ("/sets", "/srv/a")),
    ("microk8s", "/srv/a", None, "storage.dataPath", ("/data", "/srv/a")),
    ("existing", None, "/sets", "job.datasetsPath", None),
    ("kind", None, "/sets", "job.datasetsPath", ("/sets", "data")),
    ("kind", None, "/data", "job.datasetsPath", None),
    ("kind", "/srv/a", None, "storage.dataPath", None),
]
"""Cluster, its two old keys, the one that the error names, and path and folder of what becomes of them."""


@pytest.mark.parametrize(("kind", "data_path", "sets_path", "key", "wanted"), MOVED)
def test_a_key_of_before_is_refused_with_the_lines_to_write(
    kind: str, data_path: str | None, sets_path: str | None, key: str, wanted: tuple[str, str] | None
) -> None:
    old: dict[str, Any] = {"job": {**JOB, "datasetsPath": sets_path} if sets_path else JOB}
    old |= {"storage": {"dataPath": data_path} if data_path else {}}
    with pytest.raises(ConfigError) as found:
        stack(**CLUSTERS[kind], **old)
    told = str(found.value)
    assert f"trainstack:{key} = " in told
    written = re.findall(r"below job `(data: .*?)`", told)
    assert bool(written) is (wanted is not None), told
    after = {**JOB, **(yaml.safe_load(written[0]) if written else {})}
    assert after.get("data") == (wanted and [dict(zip(("path", "folder"), wanted, strict=True))])
    (job,) = stack(**CLUSTERS[kind], job=after).jobs
    places = [each.path for each in job.data or ()]
    assert places == ([sets_path or "/data"] if wanted or kind == "kind" else [])


def test_each_of_several_jobs_gets_its_lines() -> None:
    jobs = [{**JOB, "name": "a"}, {**JOB, "name": "b", "datasetsPath": "/sets"}]
    with pytest.raises(ConfigError) as found:
        stack(**CLUSTERS["existing"], storage={"dataPath": "/srv/a"}, jobs=jobs)
    told = str(found.value)
    assert "remove storage.dataPath and jobs[1].datasetsPath" in told
    assert "below jobs[0] `data: [{path: /data, folder: /srv/a}]`" in told
    assert "below jobs[1] `data: [{path: /sets, folder: /srv/a}]`" in told


PAGE = (paths.ROOT / "docs" / "data.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_each_block_of_the_page_is_taken(block: str) -> None:
    read = yaml.safe_load(block)
    job = read.get("config", {}).get("trainstack:job") or {**JOB, **read}
    assert stack(job=job).jobs[0].name


def test_no_page_but_the_records_names_the_keys_of_before() -> None:
    pages = [each for glob in ("*.md", "docs/*.md", "stacks/*.yaml") for each in paths.ROOT.glob(glob)]
    named = {each.name for each in pages if re.search("dataPath|datasetsPath", each.read_text())}
    assert named <= {"CHANGELOG.md", "data.md"}
