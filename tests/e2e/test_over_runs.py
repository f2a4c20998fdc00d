"""Two real runs of the stack, looked at together: followed, compared, on TensorBoard and in Prometheus.

Then `make use` takes the earlier one's model, and goes back to the later one. At last other users of the group train.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.matrix.kind_project import closed_to_the_group
from tests.monitoring import board
from tests.monitoring.scraped import QUERIES, filled_in, scraping
from toolchain.machine.engine import Engine
from toolchain.runs import comparison

SEED = "5"
TOLD = ("timeline.json", "report.html")


@dataclass(frozen=True)
class Runs:
    """Two runs' folders, the second one's by another seed, and what is said of its job.

    Parameters:
        watched: by `make watch`.
        closing: by `make up`; its closing lines.
    """

    first: Path
    second: Path
    watched: subprocess.CompletedProcess[str]
    closing: dict[str, str]


@pytest.fixture(scope="module")
def runs(project: Project, up: dict[str, str]) -> Iterator[Runs]:
    project.configure({"trainstack:job": {"args": ["--seed", SEED]}})
    log = project.root / ".trainstack" / "logs" / "up-beside-watch.log"
    try:
        with project.making("up", log=log) as making:

            def is_there() -> bool:
                assert making.poll() in (None, 0), log.read_text()
                listed = project.run(
                    "kubectl", "get", "pytorchjobs", "--all-namespaces", "--output", "json"
                ).stdout
                return f'"{SEED}"' in listed

            wait_until("the job of the other seed is there", is_there)
            watched = project.make("watch")
            assert making.wait() == 0, log.read_text()
        closing = project.brought_up(log.read_text())
        yield Runs(run_of(up), run_of(closing), watched, closing)
    finally:
        subprocess.run(["git", "checkout", "--quiet", "--", "stacks"], cwd=project.root, check=True)


def run_of(closing: dict[str, str]) -> Path:
    """The folder of the run whose report `make up` names."""
    (report,) = re.findall(r"^report: (.*)$", closing["output"], re.MULTILINE)
    return Path(report).parent


def last_epoch(run: Path) -> dict[str, float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return dict([line for line in lines if "accuracy" in line][-1])


def test_watch_follows_a_job_that_make_up_trains(runs: Runs) -> None:
    accuracy = f"{last_epoch(runs.second)['accuracy']:.4f}"
    said = runs.watched.stdout
    assert runs.watched.returncode == 0, said
    assert re.search(r"^pytorch-simple: Succeeded$", said, re.MULTILINE), said
    (told,) = re.findall(r"^pytorch-simple: accuracy=(\S+) loss=\S+$", said, re.MULTILINE)
    assert float(told) == pytest.approx(float(accuracy), abs=1e-4)


def test_compare_draws_both(project: Project, runs: Runs) -> None:
    """How the page looks in a browser: tests/browser/test_comparison.py."""
    done = project.make("compare", f"A={runs.first.name}", f"B={runs.second.name}")
    assert done.returncode == 0, done.stdout
    assert re.search(rf"^seed +1 +{SEED}$", done.stdout, re.MULTILINE), done.stdout
    assert not re.search(r"^(network|epochs) ", done.stdout, re.MULTILINE), "what does not differ"
    (page,) = re.findall(r"^curves: (.*)$", done.stdout, re.MULTILINE)
    text = Path(page).read_text()
    assert all(run.name in text for run in (runs.first, runs.second))
    assert len(re.findall(r'<polyline class="line\d" points="\S+ \S', text)) >= 2 * (
        len(comparison.CURVES) - 2
    )


def test_the_board_has_the_curves_of_both(project: Project, runs: Runs) -> None:
    log = project.root / ".trainstack" / "logs" / "board.log"
    with project.making("board", "PORT=0", log=log) as making:
        address = board.address(making, log)
        names = [f"{project.stack}/runs/{run.name}" for run in (runs.first, runs.second)]
        wait_until("both runs are there", lambda: {*names} <= {*board.ask(address, "data/runs")})
        for name, run in zip(names, (runs.first, runs.second), strict=True):
            *_, (_, step, accuracy) = board.ask(
                address, f"data/plugin/scalars/scalars?run={name}&tag=accuracy"
            )
            told = last_epoch(run)
            assert (step, accuracy) == (told["step"], pytest.approx(told["accuracy"], abs=1e-6))
        board.end(making, log, project.root)


def test_the_dashboard_and_the_alerts_read_the_real_stack(
    project: Project, engine: Engine, runs: Runs
) -> None:
    told = project.run("trainstack", "status", "--stack", project.stack, "--metrics").stdout
    with scraping(engine, told) as scraped:
        assert [title for title, query in QUERIES if not scraped.query(filled_in(query))] == []
        # Other tests may have left runs of other jobs.
        (accuracy,) = scraped.query('trainstack_last_run_accuracy_ratio{job="pytorch-simple"}')
        assert accuracy["metric"]["run"] == runs.second.name
        assert float(accuracy["value"][1]) == pytest.approx(last_epoch(runs.second)["accuracy"])
        # How full the disk is, is the machine's own affair.
        assert scraped.alerts("firing") | scraped.alerts("pending") <= {"TrainstackVolumeNearlyFull"}


def files(folder: Path) -> dict[str, bytes]:
    """What the trainer has left. The timeline, in the report as well, tells of later jobs that took the run, too."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in TOLD}


def timeline(folder: Path) -> list[list[str]]:
    return list(json.loads((folder / "timeline.json").read_text()))


def use(project: Project, run: str) -> dict[str, str]:
    done = project.make("use", f"RUN={run}")
    assert done.returncode == 0, done.stdout
    return project.up()


def test_the_earlier_one_comes_back_and_goes_again(project: Project, up: dict[str, str], runs: Runs) -> None:
    latest = project.models / "mnist_cnn.pt"
    before, happened = files(runs.first), timeline(runs.first)
    assert latest.read_bytes() == files(runs.second)["mnist_cnn.pt"] != before["mnist_cnn.pt"]

    back = use(project, runs.first.name)
    assert run_of(back) == runs.first
    assert latest.read_bytes() == before["mnist_cnn.pt"]
    assert (back["accuracy"], back["loss"]) == (up["accuracy"], up["loss"])
    assert ": epoch " not in back["output"]
    assert files(runs.first) == before, "nothing is trained into the run"
    assert timeline(runs.first)[: len(happened)] == happened

    again = use(project, "none")
    assert run_of(again) == runs.second
    assert latest.read_bytes() == files(runs.second)["mnist_cnn.pt"]
    assert again["accuracy"] == runs.closing["accuracy"]


@pytest.mark.slow(reason="two more runs of `make up`; tests/matrix/test_on_kind.py changes the user, too")
def test_other_users_of_the_group_go_on_with_runs_of_release_0_1_and_add_their_own(
    project: Project, runs: Runs
) -> None:
    """That release left runs in which only their own user may write."""
    subprocess.run(["chmod", "-R", "g-w", project.models / "runs"], check=True)
    assert closed_to_the_group(project.models)
    project.configure({"trainstack:job": {"user": 2000}})
    assert run_of(project.up()) == runs.second, "the run goes on under its id"
    assert closed_to_the_group(project.models) == []

    project.configure({"trainstack:job": {"user": 3000, "args": ["--seed", "7"]}})
    third = run_of(project.up())
    assert third not in (runs.first, runs.second)
    assert {file.stat().st_uid for file in third.glob("*.pt")} == {3000}
    assert closed_to_the_group(project.models) == []
