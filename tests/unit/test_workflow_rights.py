"""What a workflow file may do: code of a branch runs beside no secret and no token that writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolchain.paths import ROOT

PAGE = (ROOT / "docs" / "pull-requests.md").read_text()
FILES = sorted((ROOT / "ci").glob("*/*.yml"))
OF_GITHUB = [path for path in FILES if path.parent.name == "github"]
GITLAB_FILE = ROOT / "ci" / "gitlab" / "trainstack.yml"
GITLAB: dict[str, Any] = yaml.safe_load(GITLAB_FILE.read_text())
GITLAB_JOBS = {name: job for name, job in GITLAB.items() if name != "default"}
ON_DEFAULT = "github.ref == format('refs/heads/{0}', github.event.repository.default_branch)"
READS = {"contents": "read"}
PUBLISHES = "docs-publish"
WRITES = {
    "comment-comment": {**READS, "actions": "read", "pull-requests": "write"},
    PUBLISHES: {"pages": "write", "id-token": "write"},
    "release-publish": {"contents": "write"},
}
"""File and job -> what it may do beside reading the code."""
SECRET = re.compile(r"secrets\.(\w+)")
NUMBERED = re.compile(r"uses: ([\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$")
IMAGE = re.compile(r"[a-z][\w./-]*:[\w.-]+@sha256:[0-9a-f]{64}")


def load(path: Path) -> dict[str, Any]:
    """The workflow; YAML 1.1 reads the key `on` as true."""
    found: dict[Any, Any] = yaml.safe_load(path.read_text())
    return {("on" if key is True else key): value for key, value in found.items()}


def triggers(workflow: dict[str, Any]) -> set[str]:
    on = workflow["on"]
    return {on} if isinstance(on, str) else set(on)


JOBS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in OF_GITHUB
    for name in yaml.safe_load(path.read_text())["jobs"]
]


def job_of(path: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = load(path)["jobs"][name]
    return found


@pytest.mark.parametrize("path", OF_GITHUB, ids=lambda path: path.stem)
def test_a_workflow_gives_its_jobs_nothing(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {}
    assert not SECRET.search(str(workflow.get("env")))


@pytest.mark.parametrize(("path", "name"), JOBS)
def test_a_job_may_read_the_code_and_no_more(path: Path, name: str) -> None:
    assert job_of(path, name)["permissions"] == WRITES.get(f"{path.stem}-{name}", READS)


@pytest.mark.parametrize(("path", "name"), JOBS)
def test_no_token_stays_in_the_clone(path: Path, name: str) -> None:
    job = job_of(path, name)
    steps = [each for each in job["steps"] if "actions/checkout" in each.get("uses", "")]
    permissions = job["permissions"]
    assert [each["with"]["persist-credentials"] for each in steps] == [False] * (
        READS.items() <= permissions.items()
    )


@pytest.mark.parametrize(("path", "name"), JOBS)
def test_no_expression_stands_in_a_script(path: Path, name: str) -> None:
    assert [each["run"] for each in job_of(path, name)["steps"] if "${{" in each.get("run", "")] == []


@pytest.mark.parametrize(("path", "name"), JOBS)
def test_a_job_with_a_secret_runs_the_default_branch_in_an_environment(path: Path, name: str) -> None:
    """And a step has no secret but its own; everything else runs what any branch has."""
    job = job_of(path, name)
    steps = job.pop("steps")
    secrets = set(SECRET.findall(str(steps)))
    assert SECRET.findall(str(job)) == []
    if f"{path.stem}-{name}" == PUBLISHES:
        assert (job["if"], job["environment"]) == (ON_DEFAULT, "github-pages")
        return
    if not secrets:
        assert "environment" not in job
        return
    assert triggers(load(path)) <= {"schedule", "workflow_dispatch"}
    by_schedule = "github.event_name == 'schedule' || " if "schedule" in triggers(load(path)) else ""
    assert job["if"] == by_schedule + ON_DEFAULT
    assert job["environment"] == f"trainstack-{path.stem}"
    assert SECRET.findall(str([each for each in steps if "uses" in each])) == []
    assert "secrets" not in re.sub(SECRET, "", str(steps))


def test_what_may_write_a_comment_runs_one_file_of_the_default_branch() -> None:
    job = job_of(ROOT / "ci" / "github" / "comment.yml", "comment")
    checkout, write = job["steps"]
    assert checkout["with"] == {
        "ref": "${{ github.event.repository.default_branch }}",
        "persist-credentials": False,
    }
    assert write["run"] == 'python3 ci/comment.py "$RUN"'
    assert write["env"] == {
        "GITHUB_TOKEN": "${{ github.token }}",
        "RUN": "${{ github.event.workflow_run.id }}",
    }


def test_it_waits_for_the_review() -> None:
    comment, review = (load(ROOT / "ci" / "github" / f"{name}.yml") for name in ("comment", "review"))
    assert comment["on"]["workflow_run"] == {"workflows": [review["name"]], "types": ["completed"]}
    (upload,) = [
        each for each in review["jobs"]["review"]["steps"] if "upload-artifact" in each.get("uses", "")
    ]
    script = (ROOT / "ci" / "comment.py").read_text()
    page = Path(upload["with"]["path"]).name
    assert f'ARTIFACT, PAGE = "{upload["with"]["name"]}", "{page}"\n' in script


def used() -> Iterator[str]:
    for path in OF_GITHUB:
        yield from (line.strip("- ") for line in path.read_text().splitlines() if "uses:" in line)


def test_an_action_is_named_by_one_commit_with_its_version_beside_it() -> None:
    assert [line for line in used() if not NUMBERED.fullmatch(line)] == []
    pins = {found.groups() for line in used() if (found := NUMBERED.fullmatch(line))}
    assert len(pins) == len({action for action, *_ in pins}) > 3


def images(part: Any) -> Iterator[str]:
    """What stands under the key `image`, at any depth."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "image":
                yield from value if isinstance(value, list) else [value]
            else:
                yield from images(value)
    elif isinstance(part, list):
        for each in part:
            yield from images(each)


def test_an_image_is_named_by_tag_and_digest() -> None:
    named = {each for path in FILES for each in images(yaml.safe_load(path.read_text()))}
    assert "container" in str(load(ROOT / "ci" / "github" / "test.yml"))
    assert len(named) > 2
    assert {each for each in named if not IMAGE.fullmatch(each)} == {"${{ matrix.image }}"}


def on_request(job: dict[str, Any]) -> bool:
    return "merge_request_event" in str(job["rules"])


OF_A_REQUEST = [name for name, job in GITLAB_JOBS.items() if on_request(job)]
OF_MAIN = [name for name, job in GITLAB_JOBS.items() if not on_request(job)]


def rows() -> dict[str, list[str]]:
    """Environment -> GitHub's cell and GitLab's, of the page's table of secrets."""
    found = re.findall(r"^\| `(trainstack-\w+)` \|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
    return {name: list(cells) for name, *cells in found}


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([A-Z_]+)`", cell))


@pytest.mark.parametrize("name", OF_A_REQUEST)
def test_a_job_of_a_merge_request_has_nothing_of_the_projects(name: str) -> None:
    job = GITLAB_JOBS[name]
    known = set.union(*(names(cells[1]) for cells in rows().values()))
    assert "environment" not in job
    assert [each for each in known | {"TOKEN"} if each in str(job)] == []


@pytest.mark.parametrize("name", OF_MAIN)
def test_another_job_of_gitlabs_runs_the_default_branch_in_an_environment(name: str) -> None:
    job = GITLAB_JOBS[name]
    assert job["environment"] == f"trainstack-{name}"
    assert all("$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"].split(" && ") for rule in job["rules"])


def test_both_files_have_jobs_of_either_kind() -> None:
    assert (OF_A_REQUEST, OF_MAIN) == (["unit", "review"], ["drift", "promote"])


def test_the_page_names_what_each_environment_needs_and_no_more() -> None:
    assert rows().keys() == {f"trainstack-{name}" for name in OF_MAIN}
    header = dict(re.findall(r"^#   (trainstack-\w+) +(.*)$", GITLAB_FILE.read_text(), re.MULTILINE))
    for name in OF_MAIN:
        of_github, of_gitlab = rows()[f"trainstack-{name}"]
        text = (ROOT / "ci" / "github" / f"{name}.yml").read_text()
        assert names(of_github) == {*SECRET.findall(text), *re.findall(r"vars\.(\w+)", text)}
        assert names(of_gitlab) == set(re.findall(r"[A-Z]+_[A-Z_]+|KUBECONFIG", header[f"trainstack-{name}"]))
