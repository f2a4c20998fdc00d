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
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from infra.config.load import from_file
from infra.image import engine_image
from tests.bench.conftest import Recorder, show, table
from tests.e2e import clones, rendering
from tests.e2e.project import Project
from tests.e2e.rendering import Manifest, Title
from toolchain.runs import records
from toolchain.tools.installed import user_path

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
NOTHING, PREVIEW = "nothing changed: `make up`", "nothing changed: `pulumi preview`"
COLD, SCRIPTED = "no cluster -> model", "the script: no cluster -> model"
GOALS = {
    COLD: "45 s",
    "no cluster, the run is finished -> model": "25 s",
    PREVIEW: "3 s",
    NOTHING: "3 s",
    "`epochs` changed -> Succeeded": "8 s and the training",
    "a line of trainer/ edited -> Succeeded": "15 s to the first step",
    "`make down`": "5 s",
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
        self.take_run(COLD)
        preview = ("pulumi", "preview", "--stack", project.stack, "--expect-no-changes")
        self.take(PREVIEW, lambda: project.run(*preview))
        self.take(NOTHING, project.up)
        self.make("down")
        self.take("no cluster, the run is finished -> model", project.up)
        project.configure({"trainstack:job": {"training": {"epochs": 13 + number}}})
        self.take_run("`epochs` changed -> Succeeded")
        source = project.root / EDITED
        source.write_text(f"{source.read_text()}# {number}\n")
        self.take_run("a line of trainer/ edited -> Succeeded")
        self.take("`make down`", lambda: self.make("down"))
        project.run("git", "checkout", "--quiet", "--", "stacks", "trainer")

    def make(self, *words: str) -> None:
        done = self.project.make(*words)
        assert done.returncode == 0, done.stdout

    def spread(self, step: str) -> str:
        times = self.times[step]
        return f"{statistics.median(times):.1f} s ({min(times):.1f} to {max(times):.1f})" if times else ""


@pytest.fixture
def loops(commits: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Loop]]:
    """One of each commit, on the user's own PATH."""
    monkeypatch.setenv("PATH", user_path())
    with ExitStack() as standing:
        clone = [
            standing.enter_context(clones.temporary("loop", has_layers=False, commit=commit))
            for commit in commits.values()
        ]
        yield [Loop(project) for project in clone]


def test_the_loop_and_a_script(
    loops: list[Loop],
    commits: dict[str, str],
    thorough: bool,
    record: Recorder,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    for each in loops:
        each.project.up()
        if each is loops[0]:
            script = by_hand(each.project, tmp_path)
        each.make("down")
    loop = loops[0]
    for number in range(ROUNDS if thorough else 1):
        for each in loops:
            each.round(number)
        try:
            loop.take(SCRIPTED, script)
        finally:
            loop.project.run("kind", "delete", "cluster", "--name", f"{loop.project.cluster}-hand")
        for runs in tmp_path.glob("*-models"):
            shutil.rmtree(runs)
            made(runs)
    record(
        "loop",
        [
            {"side": side, "step": step, "seconds": [round(each, 2) for each in times]}
            for side, one in zip(commits, loops, strict=True)
            for step, times in one.times.items()
        ],
    )
    rows = []
    for step in loop.times:
        trained = loop.trained.get(step)
        of_it = f"{statistics.median(trained):.1f} s" if trained else ""
        row = [step, loop.spread(step), of_it, GOALS.get(step, "")]
        for before in loops[1:]:
            ratio = f"{median(loop, step) / median(before, step):.2f}" if before.times[step] else ""
            row += [before.spread(step), ratio]
        rows.append(row)
    rows.append(
        ["`make up` to the script", f"{median(loop, COLD) / median(loop, SCRIPTED):.2f} x", "", "1.2 x"]
    )
    head = "step | median (range) | training in it | goal" + " | before | ratio" * len(loops[1:])
    show(request, f"\n{table(head, rows)}")


def median(loop: Loop, step: str) -> float:
    return statistics.median(loop.times[step])


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
    others = [
        found for title, found in wanted.items() if title[0] not in ("CustomResourceDefinition", "PyTorchJob")
    ]
    write(folder / "objects.yaml", sorted(others, key=lambda found: found["kind"] != "Namespace"))
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
