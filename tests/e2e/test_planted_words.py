"""Words planted as secrets, trained with for real: they are in the job's Secret, and nowhere else."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e import planted
from tests.e2e.project import ROOT, Project

pytestmark = pytest.mark.slow(reason="two more trainings, and every layer of the registry is unpacked")
NAME = "TOKEN"
# Not to be found here either: the clone has this file, too.
WORD, NEXT = WORDS = (f"planted-{uuid.uuid4().hex}", f"planted-{uuid.uuid4().hex}")
SECRET = "Secret/kubeflow/pytorch-simple-env"


@pytest.fixture(scope="module")
def told(project: Project, up: dict[str, str]) -> Iterator[str]:
    """What the commands have shown of a run with the first word, and of one with the second."""
    shown = [trained(project, WORD), project.make("review").stdout, trained(project, NEXT)]
    shown += [project.make(command).stdout for command in ("status", "runs", "review")]
    yield "\n".join(shown)
    project.stand_up()


def trained(project: Project, word: str) -> str:
    """What `make up` prints of a new run of the job, which asks for the word and gets it."""
    words = ["--secret", "--path", f"trainstack:job.env.{NAME}", word]
    project.run("pulumi", "config", "set", *words, "--stack", project.stack)
    settings = yaml.safe_load(project.stack_file.read_text())
    settings["config"]["trainstack:job"]["rerun"] = WORDS.index(word) + 1
    project.stack_file.write_text(yaml.safe_dump(settings))
    printed = project.up()["output"]
    held = project.get("secret", "pytorch-simple-env")["data"][NAME]
    assert base64.b64decode(held).decode() == word
    for pod in project.get("pods")["items"]:
        if pod["metadata"]["name"].startswith("pytorch-simple-"):
            asked = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == NAME]
            assert asked == [
                {"name": NAME, "valueFrom": {"secretKeyRef": {"name": "pytorch-simple-env", "key": NAME}}}
            ]
    (master,) = [
        each for each in project.get("pods")["items"] if each["metadata"]["name"].endswith("-master-0")
    ]
    assert master["status"]["phase"] == "Succeeded", "it ran with it"
    return printed


def test_the_commands_do_not_show_them(told: str) -> None:
    assert planted.having(iter([("what make printed", iter([told.encode()]))]), WORDS) == []


def test_no_file_of_the_clone_holds_them(project: Project, told: str) -> None:
    """States with checkpoints, backups and history, renderings, logs of ours, the volume with report and model."""
    names = [name for name, _ in planted.files(project)]
    for part in (
        ".trainstack/state/.pulumi/stacks/",
        ".trainstack/state/.pulumi/backups/",
        ".trainstack/state/.pulumi/history/",
        ".trainstack/logs/",
        "stacks/rendered/dev/",
        "models/dev/runs/",
    ):
        assert any(name.startswith(part) for name in names), f"{part}: nothing was looked at"
    assert any(name.endswith("/report.html") for name in names)
    assert planted.having(planted.files(project), WORDS) == []


def test_no_state_shows_them(project: Project, told: str) -> None:
    assert planted.having(planted.states(project), WORDS) == []


def test_one_object_of_the_cluster_holds_the_second_alone(project: Project, told: str) -> None:
    assert planted.having(planted.objects(project), [NEXT]) == [SECRET]
    assert planted.having(planted.objects(project), [WORD]) == [], (
        "the old Secret is gone, and its events tell nothing"
    )


def test_no_log_shows_them(project: Project, told: str) -> None:
    names = [name for name, _ in planted.logs(project)]
    assert any(name.startswith("log of pytorch-simple-master-0") for name in names)
    assert any(":log/pods/" in name for name in names)
    assert planted.having(planted.logs(project), WORDS) == []


def test_no_blob_of_the_registry_holds_them(project: Project, told: str) -> None:
    """Manifests, configurations and the files in the layers, which another word shows to be unpacked."""
    source = (ROOT / "trainer" / "options.py").read_text().splitlines()[0]
    assert planted.having(planted.registry(project), [source]), "no layer was read"
    assert planted.having(planted.registry(project), WORDS) == []


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_the_search_finds_a_word_however_it_is_written(before: str) -> None:
    text = f"{before}{WORD} and more"
    written = [text.encode(), base64.b64encode(text.encode()), text.encode().hex().encode()]
    for each in written:
        halves = [b"x" * 100 + each[:20], each[20:]]
        assert planted.having(iter([("here", iter(halves))]), WORDS) == ["here"]
    assert planted.having(iter([("here", iter([b"another word"]))]), WORDS) == []
