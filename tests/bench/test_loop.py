"""The loop that a user lives in, on a kind cluster, and beside it what one would write instead: a shell script.

Tools and images are there. `make up` from no cluster and the script take turns; both train the same job on the digits
in the same image, on nodes of the same image.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from infra.config.load import from_file
from infra.image import engine_image
from tests.bench.conftest import show, table
from tests.e2e import clones, rendering
from tests.e2e.project import Project
from tests.e2e.rendering import Manifest, Title
from toolchain.runs import records

pytestmark = [pytest.mark.e2e, pytest.mark.bench]

ROUNDS = 3
"""Of a thorough run."""
EDITED = "trainer/train.py"
INIT_ARGUMENT = "--pytorch-init-container-image="
SCRIPT = """\
set -e
kind create cluster --name "$NAME" --config cluster.yaml --image "$NODE" --kubeconfig kubeconfig --wait 180s
kind load docker-image --name "$NAME" $IMAGES
export KUBECONFIG=kubeconfig
kubectl apply --server-side -f definitions.yaml
until kubectl wait --for=condition=Established crd --all; do sleep 1; done
kubectl apply --server-side -f objects.yaml
kubectl wait --for=condition=Available --timeout=180s deployments --all --namespace kubeflow
until kubectl apply --server-side -f job.yaml; do sleep 1; done
kubectl wait --for=condition=Succeeded --timeout=600s pytorchjobs --all --namespace kubeflow
"""
TARGETS = {
    "no cluster -> model": "55 s",
    "nothing changed: `pulumi preview`": "3 s",
    "nothing changed: `make up`": "5 s",
    "`epochs` changed -> Succeeded": "15 s and the training",
    "a line of trainer/ edited -> Succeeded": "15 s to the first step",
    "`make down`": "8 s",
}


class Loop:
    """One clone, and what has been measured of it: step -> seconds, and of those seconds the trainer's own."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.trained: defaultdict[str, list[float]] = defaultdict(list)

    def take(self, step: str, action: Callable[[], object]) -> None:
        began = time.perf_counter()
        action()
        self.times[step].append(time.perf_counter() - began)

    def take_run(self, step: str) -> None:
        """A `make up` that trains."""
        self.take(step, self.project.up)
        ended = [records.read(folder) for folder in self.project.models.glob("runs/*")]
        last = max(ended, key=lambda run: run.ended).seconds
        assert last, "the run has told how long it trained"
        self.trained[step].append(last)

    def round(self, number: int) -> None:
        """Everything once."""
        project = self.project
        shutil.rmtree(project.models)
        self.take_run("no cluster -> model")
        preview = ("pulumi", "preview", "--stack", project.stack, "--expect-no-changes")
        self.take("nothing changed: `pulumi preview`", lambda: project.run(*preview))
        self.take("nothing changed: `make up`", project.up)
        project.configure({"trainstack:job": {"training": {"epochs": 13 + number}}})
        self.take_run("`epochs` changed -> Succeeded")
        source = project.root / EDITED
        source.write_text(f"{source.read_text()}# {number}\n")
        self.take_run("a line of trainer/ edited -> Succeeded")
        self.take("`make down`", lambda: self._make("down"))
        project.run("git", "checkout", "--quiet", "--", "stacks", "trainer")

    def _make(self, *words: str) -> None:
        done = self.project.make(*words)
        assert done.returncode == 0, done.stdout


@pytest.fixture
def loop() -> Iterator[Loop]:
    with clones.temporary("loop", has_layers=False) as project:
        project.up()
        yield Loop(project)


def test_the_loop_and_a_script(
    loop: Loop, thorough: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    script = by_hand(loop.project, tmp_path)
    loop._make("down")
    for number in range(ROUNDS if thorough else 1):
        loop.round(number)
        loop.take("the script: no cluster -> model", script)
        loop.project.run("kind", "delete", "cluster", "--name", f"{loop.project.cluster}-hand")
        for runs in tmp_path.glob("*-models"):
            shutil.rmtree(runs)
            made(runs)
    rows = []
    for step, times in loop.times.items():
        trained = loop.trained.get(step)
        of_it = f"{statistics.median(trained):.1f} s" if trained else ""
        spread = f"{statistics.median(times):.1f} s ({min(times):.1f} to {max(times):.1f})"
        rows.append([step, spread, of_it, TARGETS.get(step, "")])
    ours, theirs = (
        statistics.median(loop.times[step])
        for step in ("no cluster -> model", "the script: no cluster -> model")
    )
    rows.append(["`make up` to the script", f"{ours / theirs:.2f} x", "", "1.2 x"])
    show(request, f"\n{table('step | median (range) | training in it | target', rows)}")


def by_hand(project: Project, folder: Path) -> Callable[[], object]:
    """Write the script and the objects that the standing stack has; what runs it."""
    variables = project.environment()
    node, operator, init = (variables[f"TRAINSTACK_{name}_IMAGE"] for name in ("NODE", "OPERATOR", "INIT"))
    trainer = engine_image.build(from_file(project.stack_file).image)
    wanted = rendering.rendered(project, folder / "review")
    for found in wanted.values():
        replace_images(found, trainer, operator, init)
    write(folder / "definitions.yaml", of_kinds(wanted, "CustomResourceDefinition"))
    write(folder / "job.yaml", of_kinds(wanted, "PyTorchJob"))
    names = {"CustomResourceDefinition", "PyTorchJob"}
    write(folder / "objects.yaml", [found for title, found in wanted.items() if title[0] not in names])
    volumes = of_kinds(wanted, "PersistentVolume")
    mounts = [
        {
            "hostPath": str(made(folder / each["metadata"]["name"])),
            "containerPath": each["spec"]["hostPath"]["path"],
        }
        for each in volumes
    ]
    nodes = [{"role": "control-plane", "extraMounts": mounts}]
    cluster = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": True},
        "nodes": nodes,
    }
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    given = {"NAME": f"{project.cluster}-hand", "NODE": node, "IMAGES": f"{trainer} {operator} {init}"}
    exports = "".join(f"export {name}='{value}'\n" for name, value in given.items())
    (folder / "by_hand.sh").write_text(f"cd '{folder}'\n{exports}{SCRIPT}")
    return lambda: project.run("bash", str(folder / "by_hand.sh"), timeout=1200)


def made(folder: Path) -> Path:
    """The folder, there and everybody's."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


def replace_images(found: Manifest, trainer: str, operator: str, init: str) -> None:
    """The names that the engine's images have, instead of a registry's."""
    if found["kind"] == "PyTorchJob":
        for replica in found["spec"]["pytorchReplicaSpecs"].values():
            for container in replica["template"]["spec"]["containers"]:
                container["image"] = trainer
    if found["kind"] == "Deployment":
        (container,) = found["spec"]["template"]["spec"]["containers"]
        container["image"] = operator
        container["args"] = [
            f"{INIT_ARGUMENT}{init}" if each.startswith(INIT_ARGUMENT) else each
            for each in container.get("args", [])
        ]


def of_kinds(wanted: dict[Title, Manifest], *kinds: str) -> list[Manifest]:
    return [found for title, found in wanted.items() if title[0] in kinds]


def write(file: Path, manifests: list[Manifest]) -> None:
    file.write_text(yaml.safe_dump_all(manifests))
