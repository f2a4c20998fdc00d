"""What users copy for their pull requests: the scripts of ci/ run as they stand, in a repository of the test's own."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.matrix.merged_folder import block, blocks
from tests.unit.toolchain.conftest import git
from toolchain.__main__ import parser

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / "ci").glob("*/*.yml"))
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
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", message)

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


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
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


RUN = ("$(shell touch ran)", "$(touch ran)", "`touch ran`", "$$(touch ran)", '"; touch ran; "', "'; touch ran; '", "$HOME")


@pytest.mark.parametrize("value", RUN)
@pytest.mark.parametrize("place", range(3))
def test_no_value_of_a_promotion_is_expanded(
    repository: Repository, origin: Path, value: str, place: int
) -> None:
    """Whoever may start a promotion gives them: neither make nor a shell reads one."""
    repository.write("refused", "")
    values = ["dev", "gpu", "0.99"]
    values[place] = value
    assert repository.run("ci/promote", *values).returncode == 1
    assert repository.calls == [f"promote {' '.join(values)}"]
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


class Comments:
    """The comments of one request, as GitHub's or GitLab's API has them."""

    def __init__(self) -> None:
        self.bodies = [f"of a person, {number}" for number in range(130)]
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.refuses = False

    def answer(self, method: str, path: str, body: str | None) -> tuple[int, Any]:
        self.asked.append(f"{method} {path.partition('?')[0]}")
        if self.refuses:
            return 403, {}
        if method == "GET":
            options = dict(each.split("=") for each in path.partition("?")[2].split("&"))
            size, page = int(options["per_page"]), int(options["page"])
            numbered = list(enumerate(self.bodies))[size * (page - 1) : size * page]
            return 200, [{"id": number, "body": text} for number, text in numbered]
        if method == "POST":
            self.bodies.append(str(body))
        else:
            self.bodies[int(path.rpartition("/")[2])] = str(body)
        return 200, {}


@pytest.fixture
def comments() -> Iterator[tuple[Comments, str]]:
    """The comments, and the address of a server that has them."""
    held = Comments()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.tokens.add(self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"])
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length))["body"] if length else None
            status, found = held.answer(self.command, self.path, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815 - the base class finds them by their names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield held, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def of_github(address: str) -> dict[str, str]:
    return {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": "you/trainstack", "GITHUB_TOKEN": "secret"}


def of_gitlab(address: str) -> dict[str, str]:
    return {"GITLAB_CI": "true", "CI_API_V4_URL": address, "CI_PROJECT_ID": "7", "REVIEW_TOKEN": "secret"}


@pytest.mark.parametrize(
    ("site", "created", "changed", "token"),
    [
        (
            of_github,
            "POST /repos/you/trainstack/issues/5/comments",
            "PATCH /repos/you/trainstack/issues/comments/130",
            "Bearer secret",
        ),
        (
            of_gitlab,
            "POST /projects/7/merge_requests/5/notes",
            "PUT /projects/7/merge_requests/5/notes/130",
            "secret",
        ),
    ],
)
def test_the_page_is_one_comment_that_is_kept_fresh(
    repository: Repository, comments: tuple[Comments, str], site: Any, created: str, changed: str, token: str
) -> None:
    held, address = comments
    for text in ("first", "second"):
        repository.write("page.md", f"<!-- trainstack review -->\n{text}\n")
        done = repository.run("python3", "ci/comment.py", "page.md", "5", **site(address))
        assert done.returncode == 0, done.stderr
    assert held.bodies[130:] == ["<!-- trainstack review -->\nsecond\n"]
    assert [each for each in held.asked if not each.startswith("GET")] == [created, changed]
    assert held.tokens == {token}


def test_a_site_that_refuses_the_page_is_named(
    repository: Repository, comments: tuple[Comments, str]
) -> None:
    held, address = comments
    held.refuses = True
    repository.write("page.md", "<!-- trainstack review -->\n")
    done = repository.run("python3", "ci/comment.py", "page.md", "5", **of_github(address))
    assert done.returncode == 1
    assert "the page was not written into request 5: HTTP Error 403" in done.stderr


CUT = "\n**The page is cut here: it is longer than a comment may be. The job has all of it.**\n"


@pytest.mark.parametrize(("site", "most"), [(of_github, 65_536), (of_gitlab, 1_000_000)])
def test_a_page_longer_than_the_site_takes_is_cut_and_says_so(
    repository: Repository, comments: tuple[Comments, str], site: Any, most: int
) -> None:
    held, address = comments
    for more in (0, 1):
        repository.write("page.md", "<!-- trainstack review -->\n".ljust(most + more - 1, "x") + "\n")
        done = repository.run("python3", "ci/comment.py", "page.md", "5", **site(address))
        assert done.returncode == 0, done.stderr
        assert len(held.bodies[130]) <= most
        assert held.bodies[130].endswith(CUT) is bool(more)


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


def of_merge_request(address: str) -> dict[str, str]:
    same = {"CI_MERGE_REQUEST_PROJECT_ID": "7", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7"}
    return {
        **of_gitlab(address),
        **same,
        "CI_MERGE_REQUEST_IID": "5",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "main",
    }


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("site_refuses", [False, True])
@pytest.mark.parametrize("is_fork", [False, True])
def test_gitlabs_job_fails_with_the_review_and_with_the_comment(
    repository: Repository,
    comments: tuple[Comments, str],
    is_refused: bool,
    site_refuses: bool,
    is_fork: bool,
) -> None:
    held, address = comments
    held.refuses = site_refuses
    repository.write("stacks/Pulumi.dev.yaml", "changed\n")
    repository.write("refused" if is_refused else "calls", "")
    repository.commit("topic")
    job = yaml.safe_load((ROOT / "ci" / "gitlab" / "trainstack.yml").read_text())["review"]
    assert "after_script" not in job, "its status counts for nothing"
    variables = of_merge_request(address)
    if is_fork:
        variables["CI_MERGE_REQUEST_SOURCE_PROJECT_ID"] = "8"
    done = repository.run("bash", "-eo", "pipefail", "-c", "\n".join(job["script"]), **variables)
    fails = is_refused or (site_refuses and not is_fork)
    assert bool(done.returncode) is fails, done.stderr
    written = [body for body in held.bodies if body.startswith("<!-- trainstack review -->")]
    assert len(written) == int(not site_refuses and not is_fork)


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


def test_every_script_is_used_by_both_sites() -> None:
    # It is for the machines of ci/github/test.yml.
    scripts = {path.name for path in (ROOT / "ci").iterdir() if path.is_file()} - {"own-plugins"}
    for site in ("github", "gitlab"):
        text = "".join(path.read_text() for path in WORKFLOWS if path.parent.name == site)
        assert [name for name in scripts if f"ci/{name}" not in text] == []


def test_the_blocks_of_the_page_copy_and_run_them(repository: Repository) -> None:
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
