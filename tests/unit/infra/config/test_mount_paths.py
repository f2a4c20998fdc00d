"""No two volumes of a pod are mounted in one place, whichever keys say where."""

from __future__ import annotations

from typing import Any

import pytest

from infra.config import ConfigError, Stack
from infra.config.pod_template import MOVED
from infra.job.context import context
from infra.job.pod import template
from tests.unit.infra.samples import IMAGE, JOB, stack

CLUSTERS: dict[str, dict[str, Any]] = {
    "kind": {},
    "existing": {"cluster": {"kind": "existing"}, "image": {"reference": IMAGE}},
}
DEFAULTS = ("/opt/mnist/models", "/data")


def stack_of(cluster: str, models: str, data: str | None, shm: str | None) -> Stack:
    """With data in a claim at `data`; without, the cluster's default."""
    pod = MOVED["shmSize"](shm) if shm else {}
    own = {"data": [{"path": data, "claim": "images"}]} if data else {}
    return stack(**CLUSTERS[cluster], storage={"mountPath": models}, job={**JOB, **own, "pod": pod})


def mounted(known: Stack) -> list[str]:
    (job,) = known.jobs
    (container,) = template(job, context(known, IMAGE, None), "worker")["spec"]["containers"]
    return [each["mountPath"] for each in container["volumeMounts"]]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("shm", [None, "1Gi"])
def test_whatever_is_accepted_mounts_each_volume_in_a_place_of_its_own(cluster: str, shm: str | None) -> None:
    """Each key gets each path at which a pod with all volumes mounts one."""
    places = mounted(stack_of("existing", *DEFAULTS, "1Gi"))
    assert len(places) == 4
    refused: list[str] = []
    for models in places:
        for data in (*places, None):
            try:
                found = mounted(stack_of(cluster, models, data, shm))
            except ConfigError as error:
                refused.append(str(error))
            else:
                assert len(set(found)) == len(found), found
    assert refused, "some share a place"
    for text in refused:
        assert "fix: write for example" in text
        assert "trainstack:storage.mountPath" in text or "trainstack:job.data[0].path" in text


def test_both_keys_are_named() -> None:
    with pytest.raises(ConfigError) as refused:
        stack(storage={"mountPath": "/data"})
    assert "trainstack:storage.mountPath = '/data'" in str(refused.value)
    assert "trainstack:job.data[0].path = '/data'" in str(refused.value)


@pytest.mark.parametrize("models", ["/data/models", "/data/a/b"])
def test_nothing_is_mounted_in_data_which_are_read_only(models: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)storage\.mountPath.*job\.data\[0\]\.path"):
        stack(storage={"mountPath": models})


@pytest.mark.parametrize(
    ("first", "second"), [("/data", "/data"), ("/data", "/data/a"), ("/data/a", "/data")]
)
def test_data_lie_beside_each_other(first: str, second: str) -> None:
    data = [{"path": first, "claim": "one"}, {"path": second, "claim": "two"}]
    with pytest.raises(ConfigError, match=r"(?s)job\.data\[[01]\]\.path = '/data.*no other volume"):
        stack(job={**JOB, "data": data})


@pytest.mark.parametrize(
    ("models", "data"),
    [("/database", "/data"), ("/opt/models", "/opt/models/data"), ("/tmp/models", "/tmp/data")],
)
def test_neighbours_and_folders_that_can_be_written_will_do(models: str, data: str) -> None:
    assert {models, data} < set(mounted(stack_of("kind", models, data, None)))


def test_the_job_of_a_list_is_named() -> None:
    data = [{"path": "/opt/mnist/models", "claim": "images"}]
    with pytest.raises(ConfigError, match=r"jobs\[1\]\.data\[0\]\.path"):
        stack(jobs=[JOB, {**JOB, "name": "second", "data": data}])
