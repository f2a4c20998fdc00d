"""The projects below examples/: each one's stack comes up as it is committed, in a real cluster."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import clones
from tests.e2e.images import built, pulled
from tests.e2e.project import Project
from tests.e2e.rendering import ensure_applied
from tests.e2e.waiting import HANG_S, while_running
from tests.faults.table import cluster
from tests.matrix.kind_project import UNCHANGED

pytestmark = pytest.mark.slow(reason="a cluster and an image for each example")


def configured(clone: Project, stack: str) -> Project:
    """An example's stack in the clone's cluster."""
    example = Project(clone.root, clone.cluster, stack)
    example.configure({"trainstack:cluster": {"name": clone.cluster}})
    return example


@contextmanager
def standing(clone: Project, stack: str) -> Iterator[tuple[Project, dict[str, str]]]:
    """An example's stack in a cluster of the test's, and the closing lines of its `make up`; down at the end."""
    example = configured(clone, stack)
    with clones.taken_down(example):
        yield example, example.up()


def test_a_network_and_data_of_the_users_train_on_our_image(clone: Project, tmp_path: Path) -> None:
    with standing(clone, "own-network") as (example, lines):
        assert float(lines["accuracy"]) >= 0.9
        assert Path(lines["model"]) == example.models / "mnist_cnn.pt"
        ensure_applied(example, tmp_path)
        first = pulled(example, example.stack)
        assert "@sha256:" in first
        assert UNCHANGED.search(example.up()["output"]), "the same project is the same image and the same run"
        network = clone.root / "examples" / "own-network" / "shapes.py"
        network.write_text(network.read_text().replace("(shape[0], 16, 32, 64)", "(shape[0], 8, 16, 32)"))
        smaller = example.models / "mnist_cnn.pt"
        before = smaller.stat().st_size
        example.up()
        assert pulled(example, example.stack) != first
        assert smaller.stat().st_size < before, "the changed project was built and trained"


def test_a_script_and_an_image_of_the_users_need_nothing_of_ours(clone: Project, tmp_path: Path) -> None:
    with standing(clone, "own-script") as (example, lines):
        assert float(lines["accuracy"]) >= 0.9, "read from what the script prints"
        assert float(lines["loss"]) < 0.5
        assert lines["model"] == "none"
        ensure_applied(example, tmp_path)
        outputs = example.outputs()
        assert outputs["imageDigest"] == pulled(example, example.stack).partition("@")[2]
        looked = example.run("docker", "inspect", "--format", "{{.Config.Entrypoint}}", built(example))
        assert looked.stdout.strip() == "[python3 /srv/train.py]"
        ours = ("run", "--rm", "--entrypoint", "python3", built(example), "-c", "import trainer")
        assert "No module named 'trainer'" in example.run("docker", *ours, check=False).stderr


def test_a_small_gpt_goes_on_after_both_replicas_were_killed(clone: Project, tmp_path: Path) -> None:
    example = configured(clone, "small-gpt")
    with clones.taken_down(example):
        told = tmp_path / "up.log"
        with example.making("up", log=told) as making:
            until = while_running(making, told)
            until("a run has begun", lambda: any(example.models.glob("runs/*")))
            until("both replicas train", lambda: len(trainers(example)) == 2)
            killed = trainers(example)  # before the checkpoint: a fast machine ends soon after it
            until("there is a checkpoint", lambda: any(example.models.glob("runs/*/checkpoint.pt")))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            assert making.wait(HANG_S) == 0, told.read_text()
        log = example.run("kubectl", "logs", "small-gpt-master-0", "--namespace", "kubeflow").stdout
        assert re.search(r"^resumed at epoch \d+, image \d+$", log, re.MULTILINE), log
        assert "sample:\n      You" in log, "what the network writes, at the end of the log"
        assert float(example.outputs()["accuracy"]) >= 0.35, "one of some 70 characters by chance"
        assert (example.models / "mnist_cnn.pt").is_file()
        ensure_applied(example, tmp_path)


def trainers(example: Project) -> list[int]:
    """Ids, on this machine, of the processes of the cluster that train the GPT."""
    found = cluster.processes_of(example, "python3")
    return [pid for pid in found if b"--network=gpt:GPT" in Path(f"/proc/{pid}/cmdline").read_bytes()]
