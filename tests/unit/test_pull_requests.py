"""What users copy for their pull requests: the scripts of ci/ run as they stand, in a repository of the test's own."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml

from tests.matrix.merged_folder import block, blocks
from tests.unit.toolchain.conftest import commit_all, git
from toolchain.__main__ import parser

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / "ci").glob("*/*.yml"))
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "ci" / "gitlab" / "trainstack.yml").read_text())
REVIEW = """\
import os, pathlib, sys
base, page = sys.argv[1:]
with open("calls", "a") as calls:
    calls.write(f"review {base} {page} {os.environ.get('COMMIT', '')}\\n")
pathlib.Path(page).write_text("<!-- trainstack review -->\\nNo stack has changed.\\n")
sys.exit(pathlib.Path("refused").exists())
"""
# What stands for the program: the scripts are about what is made of its results.
TOOLCHAIN = """\
import argparse, pathlib, subprocess, sys
options = argparse.ArgumentParser()
options.add_argument("verb")
for name in ("stack", "source", "target", "min-accuracy"):
    options.add_argument(f"--{name}")
given = options.parse_args()
if given.verb == "drift":
    print(sys.argv)
    sys.exit({"fine": 0, "gpu": 0, "drifted": 1, "unknown": 2}[given.stack])
with open("calls", "a") as calls:
    calls.write(f"promote {given.source} {given.target} {given.min_accuracy}\\n")
if pathlib.Path("refused").exists():
    sys.exit(1)
if not pathlib.Path("nothing").exists():
    pathlib.Path("stacks/Pulumi.gpu.yaml").write_text("changed\\n")
    message = ["-m", f"Promote {given.source} to {given.target}", "-m", "why"]
    subprocess.run(["git", "commit", "-q", "-a", *message], check=True)
"""


class Repository:
    """A clone with ci/ and two stacks, on a branch that began where main is now."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "clone", root / "bin"

    def make(self) -> None:
        self.bin.mkdir()
        shutil.copytree(ROOT / "ci", self.root / "ci")
        shutil.copy2(ROOT / "Makefile", self.root)
        self.write("toolchain/__init__.py", "")
        self.write("toolchain/__main__.py", TOOLCHAIN)
        self.write("toolchain/checks/__init__.py", "")
        self.write("toolchain/checks/review.py", REVIEW)
        self.write(".gitignore", "/.trainstack/\n/calls\n/refused\n/nothing\n")
        for stack in ("dev", "gpu"):
            self.write(f"stacks/Pulumi.{stack}.yaml", "as it was\n")
            self.write(f"stacks/rendered/{stack}/job.yaml", "as it was\n")
        git(self.root, "init", "--quiet", "--initial-branch", "main")
        for key in ("user.name", "user.email"):
            git(self.root, "config", key, "test@localhost")
        self.commit("main")
        git(self.root, "switch", "--quiet", "--create", "topic")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message: str) -> None:
        commit_all(self.root, message)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**kept, "PATH": f"{self.bin}:{kept['PATH']}", **variables}
        return subprocess.run(list(words), cwd=self.root, env=environment, capture_output=True, text=True)

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    Repository(folder).make()
    return folder


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> Repository:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Repository(tmp_path)


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("name", ["page.md", "a page.md", "`touch ran`.md"])
def test_a_review_is_the_programs(repository: Repository, name: str, is_refused: bool) -> None:
    """No shell and no make reads a name: tests/unit/infra/review/test_request.py tells what is reviewed."""
    if is_refused:
        repository.write("refused", "")
    (repository.root / "below").mkdir()
    words = ["sh", "-c", 'cd below && exec ../ci/review "$@"', "sh", "main", name]
    done = repository.run(*words, COMMIT="0123456789abcdef")
    assert done.returncode == int(is_refused), done.stderr
    assert repository.calls == [f"review main {repository.root / 'below' / name} 0123456789abcdef"]
    assert (repository.root / "below" / name).exists()
    assert not (repository.root / "below" / "ran").exists()


@pytest.mark.parametrize(
    ("stacks", "status"),
    [(["fine"], 0), (["fine", "drifted"], 1), (["drifted", "unknown", "fine"], 2), ([], 2)],
)
def test_drift_has_the_status_of_the_worst(repository: Repository, stacks: list[str], status: int) -> None:
    done = repository.run("ci/drift", *stacks)
    assert done.returncode == status, done.stderr
    assert done.stdout.count("'drift', '--stack'") == len(stacks)


@pytest.fixture
def origin(repository: Repository, tmp_path: Path) -> Path:
    """Where the repository is pushed to; it takes push options, and keeps them."""
    made = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(made))
    git(made, "config", "receive.advertisePushOptions", "true")
    hook = made / "hooks" / "pre-receive"
    hook.write_text(f'#!/bin/sh\necho "$GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1" >"{tmp_path}/options"\n')
    hook.chmod(0o755)
    git(repository.root, "remote", "add", "origin", str(made))
    repository.program("gh", f'echo "gh $*" >>"{repository.root}/calls"')
    return made


def test_a_promotion_is_pushed_and_asked_for_on_github(repository: Repository, origin: Path) -> None:
    done = repository.run("ci/promote", "dev", "gpu", "0.99")
    assert done.returncode == 0, done.stderr
    (branch,) = git(origin, "branch", "--format", "%(refname:short)").split()
    assert branch.startswith("promote-dev-to-gpu-")
    assert repository.calls == [
        "promote dev gpu 0.99",
        f"gh pr list --head {branch} --json number --jq .[].number",
        f"gh pr create --head {branch} --title Promote dev to gpu --body why",
    ]


# What `gh` does, and whether a request is asked for then.
GH = {"none is open": ("", True), "one is open": ('[ "$2" != list ] || echo 7', False)}


@pytest.mark.parametrize("site", [{}, {"GITLAB_CI": "true"}], ids=["github", "gitlab"])
@pytest.mark.parametrize("gh", GH)
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_promotion_is_repeated_from_the_same_commit(
    repository: Repository, origin: Path, site: dict[str, str], gh: str, is_changed: bool
) -> None:
    """As after a request that could not be made; what a person has added to the branch stays."""
    says = f'echo "gh $*" >>"{repository.root}/calls"\n'
    repository.program("gh", f'{says}[ "$2" != create ] || exit 1')
    first = repository.run("ci/promote", "dev", "gpu", "0.99", **site, **at("01:00"))
    assert bool(first.returncode) is not bool(site), first.stderr
    (branch,) = git(origin, "branch", "--format", "%(refname:short)").split()
    if is_changed:
        git(repository.root, "fetch", "--quiet", "origin", branch)
        git(repository.root, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        repository.write("README.md", "of a person\n")
        repository.commit("Add a word")
        git(repository.root, "push", "--quiet", "origin", f"HEAD:{branch}")
        git(repository.root, "switch", "--quiet", "topic")
    pushed = git(origin, "rev-parse", branch)
    program, asks = GH[gh]
    repository.program("gh", says + program)
    (repository.root / "calls").unlink()
    done = repository.run("ci/promote", "dev", "gpu", "0.99", **site, **at("02:00"))
    assert done.returncode == 0, done.stderr
    assert git(origin, "rev-parse", branch) == pushed
    created = [each for each in repository.calls if each.startswith("gh pr create")]
    assert len(created) == int(asks and not site)


def at(time: str) -> dict[str, str]:
    """For Git: another commit than at another time."""
    return {f"GIT_{who}_DATE": f"2026-01-01T{time}:00Z" for who in ("AUTHOR", "COMMITTER")}


@pytest.mark.parametrize("gh", ["exit 1", "exit 0"])
@pytest.mark.parametrize("is_detached", [False, True])
def test_a_promotion_ends_where_it_began(
    repository: Repository, origin: Path, gh: str, is_detached: bool
) -> None:
    repository.program("gh", gh)
    if is_detached:
        git(repository.root, "switch", "--quiet", "--detach")
    before = git(repository.root, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    done = repository.run("ci/promote", "dev", "gpu", "0.99")
    assert bool(done.returncode) is (gh == "exit 1")
    assert git(repository.root, "rev-parse", "HEAD", "--abbrev-ref", "HEAD") == before
    branches = git(repository.root, "for-each-ref", "--format", "%(refname:short)", "refs/heads")
    assert branches.split() == ["main", "topic"]


def test_on_gitlab_the_push_asks_for_it(repository: Repository, origin: Path, tmp_path: Path) -> None:
    done = repository.run("ci/promote", "dev", "gpu", "0.99", GITLAB_CI="true", PUSH_URL=str(origin))
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "options").read_text()
    assert asked == "merge_request.create merge_request.title=Promote dev to gpu\n"
    assert repository.calls == ["promote dev gpu 0.99"]


RUN = (
    "$(shell touch ran)",
    "$(touch ran)",
    "`touch ran`",
    "$$(touch ran)",
    '"; touch ran; "',
    "'; touch ran; '",
    "$HOME",
)


@pytest.mark.parametrize("value", RUN)
def test_no_value_of_a_promotion_is_expanded(repository: Repository, origin: Path, value: str) -> None:
    """Whoever may start a promotion gives them: neither make nor a shell reads one."""
    repository.write("refused", "")
    assert repository.run("ci/promote", value, value, value).returncode == 1
    assert repository.calls == [f"promote {value} {value} {value}"]
    assert not (repository.root / "ran").exists()


@pytest.mark.parametrize("values", [[], ["dev"], ["dev", "gpu"], ["dev", "gpu", "0.99", "more"]])
def test_a_promotion_takes_three_values(repository: Repository, origin: Path, values: list[str]) -> None:
    done = repository.run("ci/promote", *values)
    assert (done.returncode, repository.calls) == (2, [])
    assert "ci/promote FROM TO MIN_ACCURACY" in done.stderr


@pytest.mark.parametrize(("what", "fails"), [("refused", True), ("nothing", False)])
def test_without_a_commit_nothing_is_pushed(
    repository: Repository, origin: Path, what: str, fails: bool
) -> None:
    repository.write(what, "")
    assert bool(repository.run("ci/promote", "dev", "gpu", "0.99").returncode) is fails
    assert git(origin, "branch").split() == []


MARK = "<!-- trainstack review -->"
BOT, PERSON = "github-actions[bot]", "person"
HEAD, OLDER = "a" * 40, "b" * 40
HEADLINE = (
    f"[This run](https://github.example/run/9) has reviewed `{HEAD[:12]}`, with that commit's own code."
)


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def pull(number: int, sha: str = HEAD, repository: int | None = 7) -> dict[str, Any]:
    return {"number": number, "head": {"sha": sha, "repo": repository and {"id": repository}}}


class GitHub:
    """What its API has of a run that has reviewed request 5, as a branch's own code and its author have left it."""

    def __init__(self) -> None:
        self.comments = [(PERSON, f"{MARK}\nof a person, {number}") for number in range(130)]
        self.run: dict[str, Any] = {
            "id": 9,
            "event": "pull_request",
            "head_branch": "topic/#1 &state=closed",
            "head_sha": HEAD,
            "head_repository": {"id": 7, "owner": {"login": "someone"}},
            "html_url": "https://github.example/run/9",
        }
        self.pulls = [pull(5)]
        self.artifacts: dict[int, bytes] = {}
        self.written: list[str] = []
        self.tokens: set[tuple[str, str | None]] = set()
        self.refuses = False

    def hold(self, page: str) -> None:
        self.artifacts[len(self.artifacts) + 1] = zipped({"page.md": page.encode()})

    def answer(self, method: str, path: str, body: str | None) -> tuple[int, Any]:
        place, _, options = path.partition("?")
        asked = dict(parse_qsl(options))
        place = place.removeprefix("/repos/you/trainstack/")
        if method != "GET":
            return self.write(method, place, str(body))
        if place == "actions/runs/9":
            return 200, self.run
        if place == "actions/runs/9/artifacts":
            assert asked == {"name": "review-page"}
            return 200, {"artifacts": [{"id": number} for number in self.artifacts]}
        if place == "pulls":
            assert (asked["state"], asked["head"]) == ("open", "someone:topic/#1 &state=closed")
            found: list[Any] = self.pulls
        else:
            assert place == "issues/5/comments"
            found = [
                {"id": number, "user": {"login": author}, "body": text}
                for number, (author, text) in enumerate(self.comments)
            ]
        size, page = int(asked["per_page"]), int(asked["page"])
        return 200, found[size * (page - 1) : size * page]

    def write(self, method: str, place: str, body: str) -> tuple[int, Any]:
        if self.refuses:
            return 403, {}
        self.written.append(f"{method} {place}")
        if method == "POST":
            self.comments.append((BOT, body))
        else:
            self.comments[int(place.rpartition("/")[2])] = (BOT, body)
        return 200, {}


@pytest.fixture
def site() -> Iterator[tuple[GitHub, str]]:
    """GitHub's API, and its address."""
    held = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            artifact = re.fullmatch(r"/repos/you/trainstack/actions/artifacts/(\d+)/zip", self.path)
            stored = re.fullmatch(r"/stored/(\d+)", self.path)
            place = "stored" if stored else "api"
            held.tokens.add((place, self.headers["Authorization"]))
            if artifact:
                self.send_response(302)
                self.send_header(
                    "Location", f"http://localhost:{server.server_address[1]}/stored/{artifact[1]}"
                )
                self.end_headers()
                return
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length))["body"] if length else None
            status, found = (200, None) if stored else held.answer(self.command, self.path, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(held.artifacts[int(stored[1])] if stored else json.dumps(found).encode())

        do_POST = do_PATCH = do_GET  # noqa: N815 - the base class finds them by their names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield held, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def comment(repository: Repository, address: str, run: str = "9") -> subprocess.CompletedProcess[str]:
    """As the step of ci/github/comment.yml."""
    variables = {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": "you/trainstack", "GITHUB_TOKEN": "secret"}
    job = yaml.safe_load((ROOT / "ci" / "github" / "comment.yml").read_text())["jobs"]["comment"]
    (script,) = [step["run"] for step in job["steps"] if "run" in step]
    return repository.run("bash", "-e", "-c", script, **variables, RUN=run)


def test_the_page_is_one_comment_that_is_kept_fresh(repository: Repository, site: tuple[GitHub, str]) -> None:
    """Another's comment with the same first line is none of ours; of a run's tries the newest counts."""
    held, address = site
    for text in ("first", "second"):
        held.hold(f"{MARK}\n{text}\n")
        done = comment(repository, address)
        assert done.returncode == 0, done.stderr
    assert held.comments[130:] == [(BOT, f"{MARK}\n{HEADLINE}\n\nsecond\n")]
    assert held.written == ["POST issues/5/comments", "PATCH issues/comments/130"]


def test_a_comment_of_ours_without_the_mark_stays(repository: Repository, site: tuple[GitHub, str]) -> None:
    held, address = site
    held.comments = [(BOT, "of another workflow"), (BOT, f"quoted: {MARK}\n"), (PERSON, MARK)]
    held.hold(f"{MARK}\npage\n")
    assert comment(repository, address).returncode == 0
    assert held.written == ["POST issues/5/comments"]


def test_the_token_goes_to_the_api_alone(repository: Repository, site: tuple[GitHub, str]) -> None:
    """GitHub redirects to another host for an artifact."""
    held, address = site
    held.hold(f"{MARK}\npage\n")
    assert comment(repository, address).returncode == 0
    assert held.tokens == {("api", "Bearer secret"), ("stored", None)}


REQUESTS: dict[str, tuple[list[dict[str, Any]], int, bool]] = {
    "another commit is its last one by now": ([pull(5, OLDER)], 0, False),
    "another repository's": ([pull(5, repository=8)], 0, False),
    "of a repository that is gone": ([pull(5, repository=None)], 0, False),
    "none is open": ([], 0, False),
    "two end in this commit": ([pull(5), pull(6)], 1, False),
    "one of many": ([*(pull(number, OLDER) for number in range(100, 230)), pull(5)], 0, True),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_is_the_one_that_github_says(
    repository: Repository, site: tuple[GitHub, str], case: str
) -> None:
    """By the commit of the run and the last one of the request: nothing in the artifact names it."""
    held, address = site
    held.pulls, status, writes = REQUESTS[case]
    held.hold(f"{MARK}\nThis is about request 1.\n")
    done = comment(repository, address)
    assert done.returncode == status, done.stderr
    assert bool(held.written) is writes


@pytest.mark.parametrize(
    ("changed", "status"),
    [({"event": "push"}, 1), ({"event": "workflow_dispatch"}, 1), ({"head_repository": None}, 0)],
)
def test_a_run_that_was_about_no_request_writes_nothing(
    repository: Repository, site: tuple[GitHub, str], changed: dict[str, Any], status: int
) -> None:
    held, address = site
    held.run |= changed
    held.hold(f"{MARK}\npage\n")
    assert comment(repository, address).returncode == status
    assert held.written == []


def linked() -> bytes:
    """An archive whose page is a symbolic link, as tools that unpack would make it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        entry = zipfile.ZipInfo("page.md")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/proc/self/environ")
    return made.getvalue()


ARTIFACTS: dict[str, bytes | None] = {
    "none": None,
    "not an archive": b"page",
    "cut": zipped({"page.md": MARK.encode()})[:40],
    "another file": zipped({"other.md": MARK.encode()}),
    "a path": zipped({"../page.md": MARK.encode()}),
    "a link": linked(),
    "without the mark": zipped({"page.md": b"# All is well\n"}),
    "not text": zipped({"page.md": f"{MARK}\n".encode() + b"\xff"}),
    "a bomb": zipped({"page.md": f"{MARK}\n".encode() + b"x" * 2**25}),
}


@pytest.mark.parametrize("case", ARTIFACTS)
def test_an_artifact_is_a_page_or_nothing(
    repository: Repository, site: tuple[GitHub, str], case: str
) -> None:
    held, address = site
    content = ARTIFACTS[case]
    if content is not None:
        held.artifacts[1] = content
    before = sorted(repository.root.iterdir())
    done = comment(repository, address)
    assert done.returncode == 1
    assert done.stderr.startswith("the page of run 9 was not written: "), done.stderr
    assert (held.written, sorted(repository.root.iterdir())) == ([], before)


def test_a_site_that_refuses_the_page_is_named(repository: Repository, site: tuple[GitHub, str]) -> None:
    held, address = site
    held.refuses = True
    held.hold(f"{MARK}\npage\n")
    done = comment(repository, address)
    assert done.returncode == 1
    assert "the page of run 9 was not written: HTTP Error 403" in done.stderr


CUT = "\n**The page is cut here: it is longer than a comment may be. The run has all of it.**\n"


@pytest.mark.parametrize("more", [0, 1])
def test_a_page_longer_than_the_site_takes_is_cut_and_says_so(
    repository: Repository, site: tuple[GitHub, str], more: int
) -> None:
    held, address = site
    head = f"{MARK}\n{HEADLINE}\n\n"
    held.hold(f"{MARK}\n" + "x" * (65_536 - len(head) - 1 + more) + "\n")
    done = comment(repository, address)
    assert done.returncode == 0, done.stderr
    assert len(held.comments[130][1]) <= 65_536
    assert held.comments[130][1].endswith(CUT) is bool(more)
    assert held.comments[130][1].startswith(head)


BLOCK = "```text\na log\nof two\n```\n"
FOLD = f"<details>\n<summary>more</summary>\n\n````text\n```\n<details>\n````\n{BLOCK}\n</details>\n"
CLOSING = {"```", "````", "</details>", ""}


@pytest.mark.parametrize("line", ["| `größe` | 1 |\n", BLOCK, f"- one\n{BLOCK}", FOLD])
def test_a_page_is_cut_between_its_lines(line: str) -> None:
    shortened = runpy.run_path(str(ROOT / "ci" / "comment.py"))["shortened"]
    page = "<!-- trainstack review -->\n" + line * 100
    for most in range(len(page) - 4 * len(line), len(page)):
        cut = shortened(page, most)
        assert most - 200 < len(cut) <= most
        kept = cut.removesuffix(CUT).splitlines(keepends=True)
        added: list[str] = []
        while kept and not page.startswith("".join(kept)):
            added.insert(0, kept.pop().strip())
        assert set(added) <= CLOSING, "whole lines"
        if line == FOLD:
            shown = re.sub(r"````text\n.*?````\n", "", cut, flags=re.DOTALL)
            assert shown.count("<details>") == shown.count("</details>")
            assert cut.count("````") % 2 == 0
        else:
            assert cut.count("```") % 2 == 0
    assert shortened(page, len(page)) == page


@pytest.mark.parametrize("is_refused", [False, True])
def test_gitlabs_job_fails_with_the_review_and_keeps_its_page(
    repository: Repository, is_refused: bool
) -> None:
    repository.write("refused" if is_refused else "calls", "")
    job = GITLAB["review"]
    assert job["artifacts"] == {"when": "always", "expose_as": "review page", "paths": ["page.md"]}
    assert "after_script" not in job, "its status counts for nothing"
    script = "\n".join(job["script"])
    done = repository.run("bash", "-eo", "pipefail", "-c", script, CI_MERGE_REQUEST_DIFF_BASE_SHA="main")
    assert done.returncode == int(is_refused), done.stderr
    assert (repository.root / "page.md").read_text().startswith(MARK)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_scripts_and_targets_that_a_workflow_runs_are_there(path: Path) -> None:
    text = path.read_text()
    assert yaml.safe_load(text)
    scripts = {word.strip("'\"") for word in text.split() if word.startswith("ci/")}
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^ *- (?:run: )?make ([\w-]+)", text, re.MULTILINE))
    assert [name for name in targets if f"\n{name}:" not in makefile] == []
    assert scripts | targets


OF_GITHUB_ALONE = {
    "own-plugins": "for the machines of ci/github/test.yml",
    "comment.py": "its API",
    "release": "its releases",
}


def test_every_script_is_used_by_both_sites() -> None:
    scripts = {path.name for path in (ROOT / "ci").iterdir() if path.is_file()} - {"mkdocs_hooks.py"}
    for site, left_out in (("github", set()), ("gitlab", OF_GITHUB_ALONE.keys())):
        text = "".join(path.read_text() for path in WORKFLOWS if path.parent.name == site)
        assert {name for name in scripts if f"ci/{name}" not in text} == left_out


def test_the_blocks_of_the_pages_copy_and_run_them(repository: Repository) -> None:
    assert repository.run("bash", "-e", "-c", block("mkdir -p .github")).returncode == 0
    copied = {path.name for path in (repository.root / ".github" / "workflows").iterdir()}
    assert copied == {path.name for path in WORKFLOWS if path.parent.name == "github"}
    assert yaml.safe_load((repository.root / ".gitlab-ci.yml").read_text())
    done = repository.run("bash", "-e", "-c", block("ci/review main"))
    assert done.returncode == 0, done.stderr
    assert "No stack has changed." in (repository.root / "page.md").read_text()


def test_every_make_line_of_the_pages_is_a_command() -> None:
    lines = {line.partition("#")[0].strip() for each in blocks() for line in each.splitlines()}
    lines = {line for line in lines if line.startswith("make ")}
    assert len(lines) > 2
    for line in lines:
        words = ["make", "--dry-run", *shlex.split(line)[1:]]
        # Not with the flags and variables of a make that runs these tests.
        clean = {"PATH": os.environ["PATH"]}
        shown = subprocess.run(words, cwd=ROOT, env=clean, capture_output=True, text=True, check=True).stdout
        assert parser().parse_args(shlex.split(shown)[3:]).verb == line.split()[1]


def check_jsonschema(schema: str, *files: Path) -> subprocess.CompletedProcess[str]:
    """With the schemas of the two sites that the package brings: no network is asked."""
    program = Path(sys.executable).parent / "check-jsonschema"
    command = [str(program), "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("site", "schema", "right", "wrong"),
    [("github", "github-workflows", "runs-on:", "run-on:"), ("gitlab", "gitlab-ci", "rules:", "rule:")],
)
def test_the_files_have_the_shape_that_the_site_publishes(
    tmp_path: Path, site: str, schema: str, right: str, wrong: str
) -> None:
    files = [path for path in WORKFLOWS if path.parent.name == site]
    done = check_jsonschema(schema, *files)
    assert done.returncode == 0, done.stdout
    assert right in files[0].read_text()
    (tmp_path / "wrong.yml").write_text(files[0].read_text().replace(right, wrong))
    assert check_jsonschema(schema, tmp_path / "wrong.yml").returncode == 1
