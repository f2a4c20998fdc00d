"""Storage on a real kind cluster of two nodes: a class that provisions, and folders that are shared or are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from infra.clusters.kind.config import MODELS
from infra.run.reader_pod import NAME_PREFIX
from tests.e2e import clones, local_path
from tests.e2e.beside import stack_beside
from tests.e2e.images import pulled
from tests.e2e.project import Project
from tests.matrix.kind_project import UNCHANGED, sha256
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of two nodes of its own, and three trainings in it")
SHARED = {"shared": True}
# Its pods may come to both nodes. A third node would take what the kernel has for watching files: see `make doctor`.
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
EVERYWHERE = {"pod": {"spec": {"tolerations": [CONTROL_PLANE]}}}


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """Its own folder is declared shared, which kind's nodes do for real."""
    with clones.temporary("storage") as clone:
        sections: dict[str, dict[str, Any]] = {
            "cluster": {"workers": 1},
            "storage": SHARED,
            "job": EVERYWHERE,
        }
        clone.configure({f"trainstack:{name}": section for name, section in sections.items()})
        yield clone


@pytest.fixture(scope="module")
def up(project: Project) -> dict[str, str]:
    return project.up()


@pytest.fixture(scope="module")
def image(project: Project, up: dict[str, str]) -> str:
    return pulled(project)


def beside(
    project: Project, image: str, name: str, storage: dict[str, Any]
) -> AbstractContextManager[Project]:
    """A stack of kind `existing` on the same cluster, with this section `storage`."""
    return stack_beside(project, name, image, {"name": name, **EVERYWHERE}, storage)


def nodes(project: Project) -> list[str]:
    return [f"{project.cluster}-control-plane", f"{project.cluster}-worker"]


def left(project: Project) -> list[str]:
    """Passing pods of ours that are still there."""
    names = [pod["metadata"]["name"] for pod in project.get("pods")["items"]]
    return [name for name in names if name.startswith(NAME_PREFIX)]


def test_nodes_that_share_the_models_folder_pass(project: Project, up: dict[str, str]) -> None:
    assert f"checking whether 2 nodes have the same folder: {', '.join(nodes(project))}" in logged(project)
    assert (project.models / "mnist_cnn.pt").stat().st_size > 1_000_000
    assert list(project.models.glob(".trainstack-shared-*")) == [], "the file of the look is gone"
    assert left(project) == []
    assert UNCHANGED.search(project.up()["output"]), "a second make up does not look again"


def logged(project: Project) -> str:
    """What Pulumi and its plugins printed in all updates."""
    folder = project.root / ".trainstack" / "logs"
    return "\n".join(file.read_text(errors="replace") for file in sorted(folder.glob("*.log")))


def test_another_stack_shares_a_folder_below_it(project: Project, image: str) -> None:
    with beside(project, image, "together", {**SHARED, "hostPath": f"{MODELS}/together"}) as stack:
        stack.up()
        assert (project.models / "together" / "mnist_cnn.pt").is_file(), "on this machine's folder at once"
        assert (stack.models / "mnist_cnn.pt").is_file(), "and brought to the stack's own"


@pytest.mark.parametrize("is_made", [True, False], ids=["both writable", "made by nobody"])
def test_a_folder_that_each_node_has_for_itself_is_refused_before_the_job(
    project: Project, image: str, engine: Engine, is_made: bool
) -> None:
    """Made by nobody: kubelet makes it for root alone, and one node's is then prepared for the trainer."""
    folder = f"/var/lib/trainstack/{'apart' if is_made else 'nowhere'}"
    for node in nodes(project) if is_made else []:
        engine.output("exec", node, "mkdir", "--parents", "--mode", "777", folder)
    with beside(project, image, "apart", {**SHARED, "hostPath": folder}) as stack:
        refused = stack.make("up")
        assert refused.returncode != 0
        first, second = nodes(project)
        said = [f"node {second} has another folder than node {first}"]
        said += [] if is_made else [f"node {first} gave no answer: "]
        assert any(each in refused.stdout for each in said), refused.stdout
        for part in ("trainstack:storage.shared", folder, "No job was started", "fix: mount"):
            assert part in refused.stdout
        assert "Traceback" not in refused.stdout
        jobs = {each["metadata"]["name"] for each in project.get("pytorchjobs")["items"]}
        assert "apart" not in jobs
        assert left(project) == []


@pytest.fixture(scope="module")
def provisioned(project: Project, image: str, engine: Engine) -> Iterator[Project]:
    """A stack whose volume rancher's local-path-provisioner makes."""
    local_path.install(project, engine)
    storage = {"kind": "class", "storageClass": local_path.CLASS, "accessMode": "ReadWriteOnce"}
    with beside(project, image, "made", storage) as stack:
        yield stack


def test_a_class_that_provisions_keeps_the_model_and_its_claim(provisioned: Project) -> None:
    """The job's pods follow the volume to its node; the claim outlives the stack, and the stack goes on with it."""
    lines = provisioned.up()
    model = provisioned.models / "mnist_cnn.pt"
    assert Path(lines["model"]) == model
    digest = sha256(model)
    claim = provisioned.get("pvc", f"trainstack-made-models-{local_path.CLASS}")
    volume = provisioned.get("pv", claim["spec"]["volumeName"])
    assert claim["status"]["phase"] == volume["status"]["phase"] == "Bound"
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "rancher.io/local-path"
    assert UNCHANGED.search(provisioned.up()["output"]), "a second make up changes nothing"
    down = provisioned.make("down")
    assert down.returncode == 0, down.stdout
    kept = provisioned.get("pvc", claim["metadata"]["name"])
    assert kept["metadata"]["uid"] == claim["metadata"]["uid"]
    assert sha256(model) == digest, "the model here outlives its stack"
    provisioned.run("kubectl", "delete", "pvc", claim["metadata"]["name"], "--namespace", "kubeflow")
