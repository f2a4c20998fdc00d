"""`make up` refuses to make a cluster that this machine could not carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.machine import inotify, processes
from toolchain.operating import doctor, environment
from toolchain.steps import SetupError


@pytest.mark.parametrize(
    ("cluster", "there", "used", "is_refused"),
    [
        ("trainstack-dev", False, 102, True),
        ("trainstack-dev", False, 101, False),
        ("trainstack-dev", True, 128, False),
        (None, False, 128, False),
    ],
    ids=["a new node lacks some", "there are enough", "the cluster is there", "the cluster is others'"],
)
def test_a_node_that_could_not_watch_its_files_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cluster: str | None,
    there: bool,
    used: int,
    is_refused: bool,
) -> None:
    (limit := tmp_path / "limit").write_text("128\n")
    for number in range(used):
        (descriptors := tmp_path / str(number) / "fd").mkdir(parents=True)
        (descriptors / "3").symlink_to("anon_inode:inotify")
    monkeypatch.setattr(inotify, "INSTANCES", limit)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(environment, "cluster", lambda stack: cluster)
    before = {"resources": [{"type": "kubernetes:core/v1:Namespace"}] * there}
    if not is_refused:
        doctor.ensure_node_possible(before, "dev")
        return
    with pytest.raises(SetupError, match="102 of 128 instances in use") as refused:
        doctor.ensure_node_possible(before, "dev")
    assert "max_user_instances=512" in str(refused.value)
