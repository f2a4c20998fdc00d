"""`make plan`: from a stack's job, its last run and the user's figures to a table, and what it says it cannot know."""

from __future__ import annotations

import ast
import math

import pytest

from tests.unit.toolchain.planning.conftest import (
    DEV,
    GPUS,
    MEASURED,
    OWN_IMAGE,
    OWN_NETWORK,
    RECORDED_SIZE,
    Stack,
    told,
)
from toolchain import __main__ as command
from toolchain.paths import ROOT
from toolchain.planning import fabrics, model_inputs, plan_options
from toolchain.planning.checkpoint_sizes import CHECKPOINT
from toolchain.planning.model import exchanged, sent
from toolchain.planning.stack_job import Job

Capture = pytest.CaptureFixture[str]
LENET = exchanged(model_inputs.PARAMETERS["lenet"])
FILLED = {
    "--link": "tcp-10g",
    "--latency-us": "20",
    "--bandwidth-gbs": "3",
    "--images-per-s": "700",
    "--parameters": "1000",
    "--batch-size": "32",
    "--fixed-ms": "2",
    "--cores": "3",
}


def planned(capsys: Capture, *options: str) -> dict[str, object]:
    assert command.main(["plan", "--json", *options]) == 0, capsys.readouterr().err
    return told(capsys.readouterr().out)


def refused(capsys: Capture, *options: str) -> str:
    assert command.main(["plan", *options]) == 1
    return capsys.readouterr().err


def test_the_table_has_a_row_for_the_stack_s_own_replicas_and_names_its_assumptions(
    stack: Stack, capsys: Capture
) -> None:
    stack.run(network="lenet")
    assert command.main(["plan"]) == 0
    text = capsys.readouterr().out
    assert "job mnist of stack dev: 2 replicas, 64 images a step, shared by all replicas, gloo" in text
    (own,) = [line for line in text.splitlines() if line.startswith("2*")]
    assert "32" in own.split()
    assert " pay: " in text or " pays: " in text
    assumptions = text.partition("\nassumptions\n")[2].splitlines()
    for what in (
        "run mnist-01234567",
        "link loopback: 100 us and 1 GB/s",
        "share 8 cores",
        "overlaps",
        "--fixed-ms",
    ):
        assert any(what in line for line in assumptions), what


def test_a_run_s_own_row_is_the_speed_that_it_had(stack: Stack, capsys: Capture) -> None:
    """What is subtracted for the exchange comes back where it is predicted."""
    stack.run(network="lenet")
    found = planned(capsys)
    (own,) = [each for each in found["points"] if each["replicas"] == 2]  # type: ignore[attr-defined]
    assert math.isclose(own["images_per_s"], 5000)
    assert own["sent"] == sent(2, RECORDED_SIZE)


@pytest.mark.parametrize("replicas", [1, 2, 8, 16])
@pytest.mark.parametrize("options", [(), ("--fixed-ms", "1"), ("--cores", "2"), ("--cores", "0")])
def test_it_comes_back_for_any_number_of_replicas(
    stack: Stack, capsys: Capture, replicas: int, options: tuple[str, ...]
) -> None:
    stack.run(network="lenet", world_size=replicas, global_batch=640)
    stack.job = Job("mnist", replicas, 1, 0, "gloo", True, "lenet", 640)
    found = planned(capsys, *options)
    (own,) = [each for each in found["points"] if each["replicas"] == replicas]  # type: ignore[attr-defined]
    assert math.isclose(own["images_per_s"], 5000)


@pytest.mark.parametrize("job", [OWN_NETWORK, OWN_IMAGE, DEV], ids=["network", "image", "ours"])
def test_the_size_is_that_of_the_run_s_checkpoint(stack: Stack, capsys: Capture, job: Job) -> None:
    stack.job = job
    stack.run(network=job.network or "anything")
    assert planned(capsys)["training"]["size"] == RECORDED_SIZE  # type: ignore[index]


@pytest.mark.parametrize("job", [OWN_NETWORK, OWN_IMAGE], ids=["network", "image"])
@pytest.mark.parametrize("left", ["no run", "unfinished", "no checkpoint", "no speed"])
def test_a_size_that_nobody_recorded_is_not_known(stack: Stack, capsys: Capture, job: Job, left: str) -> None:
    stack.job = job
    if left != "no run":
        folder = stack.run(finished=left != "unfinished", network=job.network or "anything")
        if left == "no checkpoint":
            (folder / CHECKPOINT).unlink()
        if left == "no speed":
            (folder / "metrics.jsonl").write_text("")
    said = refused(capsys)
    assert "cannot be known" in said
    assert "--parameters" in said


def test_a_run_of_another_network_tells_nothing(stack: Stack, capsys: Capture) -> None:
    stack.run(network="convnet")
    found = planned(capsys)
    assert found["training"]["size"] == LENET  # type: ignore[index]
    assert any("ASSUMED" in line for line in found["assumptions"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("job", [DEV, GPUS], ids=["threads", "gpus"])
def test_without_a_run_the_speed_is_assumed_and_said_to_be(stack: Stack, capsys: Capture, job: Job) -> None:
    stack.job = job
    found = planned(capsys)
    assumed = model_inputs.ASSUMED_GPU if job.gpus else model_inputs.ASSUMED_THREAD
    assert math.isclose(found["training"]["image_s"], 1 / assumed)  # type: ignore[index]
    assert any(f"{assumed:,.0f} images/s: ASSUMED" in line for line in found["assumptions"])  # type: ignore[attr-defined]


def test_another_stack_s_and_another_job_s_runs_do_not_count(stack: Stack, capsys: Capture) -> None:
    stack.run("mnist-00000001", stack="gpu", network="lenet")
    stack.run("other-00000002", network="lenet")
    assert any("ASSUMED" in line for line in planned(capsys)["assumptions"])  # type: ignore[attr-defined]


def test_of_several_runs_the_last_counts(stack: Stack, capsys: Capture) -> None:
    stack.run("mnist-00000001", 1000.0, network="lenet")
    stack.run("mnist-00000002", 3000.0, network="lenet")
    stack.run("mnist-00000003", 7000.0, network="lenet", finished=False)
    assert any("mnist-00000002 had 3,000" in line for line in planned(capsys)["assumptions"])  # type: ignore[attr-defined]


def test_a_run_that_was_faster_than_the_link_allows_ran_on_another(stack: Stack, capsys: Capture) -> None:
    stack.run(network="lenet")
    said = refused(capsys, "--latency-us", "1e6", "--bandwidth-gbs", "1")
    assert "it ran on another" in said
    assert "--link" in said


def test_gpus_are_planned_up_to_a_thousand_and_over_other_links(stack: Stack, capsys: Capture) -> None:
    stack.job = GPUS
    found = planned(capsys, "--batch-size", "64")
    assert found["points"][-1]["replicas"] == 1000  # type: ignore[index]
    assert found["fabric"]["name"] == "tcp-100g"  # type: ignore[index]
    assert set(found["other_fabrics"]) == set(fabrics.ALL) - {"tcp-100g"}  # type: ignore[call-overload]
    assert command.main(["plan", "--batch-size", "64"]) == 0
    text = capsys.readouterr().out
    assert all(f"by {name}: up to " in text for name in fabrics.ALL if name != "tcp-100g")


def test_a_shared_batch_ends_where_each_replica_has_one_image(stack: Stack, capsys: Capture) -> None:
    stack.job = GPUS
    assert planned(capsys)["points"][-1]["replicas"] == 64  # type: ignore[index]
    assert command.main(["plan", "--link", "h200", "--images-per-s", "1"]) == 0
    assert "more would have no image; --batch-size gives each its own" in capsys.readouterr().out


@pytest.mark.parametrize("job", [DEV, GPUS], ids=["here", "elsewhere"])
@pytest.mark.parametrize("link", plan_options.LINKS)
def test_every_link_can_be_named(stack: Stack, capsys: Capture, job: Job, link: str) -> None:
    stack.job = job
    found = planned(capsys, "--link", link)
    assert found["fabric"]["name"] == link  # type: ignore[index]
    assert found["fabric"]["trees"] == (job.backend == "nccl")  # type: ignore[index]


def test_here_the_link_is_measured(stack: Stack, capsys: Capture) -> None:
    assert planned(capsys)["fabric"]["source"] == MEASURED.source  # type: ignore[index]


@pytest.mark.parametrize("flag", FILLED)
def test_a_figure_of_the_user_s_is_the_one_that_counts(stack: Stack, capsys: Capture, flag: str) -> None:
    stack.run(network="lenet")
    options = [flag, FILLED[flag]]
    if flag in ("--latency-us", "--bandwidth-gbs"):
        options = [word for each in ("--latency-us", "--bandwidth-gbs") for word in (each, FILLED[each])]
    found = planned(capsys, *options)
    training, link = found["training"], found["fabric"]["between"]  # type: ignore[index]
    seen = {
        "--link": found["fabric"]["name"],  # type: ignore[index]
        "--latency-us": link["latency_s"] * 1e6,
        "--bandwidth-gbs": link["bandwidth"] / 1e9,
        "--images-per-s": 1 / training["image_s"],  # type: ignore[index]
        "--parameters": training["size"] / 4 - 1,  # type: ignore[index]
        "--batch-size": training["batch"],  # type: ignore[index]
        "--fixed-ms": training["fixed_s"] * 1e3,  # type: ignore[index]
        "--cores": training["cores"],  # type: ignore[index]
    }[flag]
    assert seen == FILLED[flag] if flag == "--link" else math.isclose(seen, float(FILLED[flag]))


def test_every_figure_has_a_case() -> None:
    assert list(FILLED) == [option.flag for option in plan_options.FIGURES]


@pytest.mark.parametrize("flag", [*list(FILLED)[1:], "--most"])
@pytest.mark.parametrize("value", ["x", "-1", "nan", "inf", "0", "1.5"])
def test_a_figure_that_cannot_be_is_refused(stack: Stack, capsys: Capture, flag: str, value: str) -> None:
    name = flag.lstrip("-").replace("-", "_")
    is_whole = name in (*plan_options.WHOLE, "most")
    if (value == "0" and name in plan_options.MAY_BE_ZERO) or (value == "1.5" and not is_whole):
        return
    said = refused(capsys, f"{flag}={value}")
    assert f"{flag} {value} is not a" in said


@pytest.mark.parametrize("flag", ["--latency-us", "--bandwidth-gbs"])
def test_half_a_link_is_refused(stack: Stack, capsys: Capture, flag: str) -> None:
    assert "a link has both figures" in refused(capsys, flag, "3")


def test_more_replicas_than_a_plan_is_made_for_are_refused(stack: Stack, capsys: Capture) -> None:
    assert "is more than 100,000" in refused(capsys, "--most", "100001")


def test_an_image_of_the_user_s_own_needs_its_batch_as_well(stack: Stack, capsys: Capture) -> None:
    stack.job = OWN_IMAGE
    assert "--batch-size" in refused(capsys, "--parameters", "9")
    assert planned(capsys, "--parameters", "9", "--batch-size", "8")["training"]["per_replica"]  # type: ignore[index]


def test_the_sizes_of_our_networks_are_the_trainer_s() -> None:
    """Its docstrings say them, which its own tests hold against torch; so does docs/trainer.md."""
    tree = ast.parse((ROOT / "trainer" / "networks.py").read_text())
    page = (ROOT / "docs" / "trainer.md").read_text()
    said = {
        node.name.lower(): ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    for name, parameters in model_inputs.PARAMETERS.items():
        assert f"{parameters:,} parameters" in said[name]
        assert f"| {parameters:,} |" in page
    from trainer.options import NETWORKS

    assert set(model_inputs.PARAMETERS) == set(NETWORKS)
