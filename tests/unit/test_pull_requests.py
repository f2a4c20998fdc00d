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

from tests.matrix.merged_folder import PAGE, block
from tests.unit.toolchain.conftest import git
from toolchain.__main__ import parser

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / "ci").glob("*/*.yml"))
# What stands for the Makefile's targets: the scripts are about what is made of their results.
MAKEFILE = """\
review:
	@echo "review $(STACK) $(BASE)" >>calls
	@test ! -e breaks-$(STACK)
	@mkdir -p .trainstack/review
	@echo "## Stack $(STACK)" >.trainstack/review/$(STACK).md
	@test ! -e stale-$(STACK) || echo changed >>stacks/rendered/$(STACK)/job.yaml
	@test ! -e refused-$(STACK)

promote:
	@echo "promote $(FROM) $(TO) $(MIN_ACCURACY)" >>calls
	@test ! -e refused
	@test -e nothing || echo changed >stacks/Pulumi.$(TO).yaml
	@test -e nothing || git commit -q -a -m "Promote $(FROM) to $(TO)" -m why
"""
TOOLCHAIN = (
    'import sys\nprint(sys.argv)\nsys.exit({"fine": 0, "gpu": 0, "drifted": 1, "unknown": 2}[sys.argv[-1]])\n'
)


class Repository:
    """A clone with ci/ and two stacks, on a branch that began where main is now."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "clone", root / "bin"
        self.bin.mkdir()
        shutil.copytree(ROOT / "ci", self.root / "ci")
        self.write("Makefile", MAKEFILE)
        self.write("toolchain/__init__.py", "")
        self.write("toolchain/__main__.py", TOOLCHAIN)
        self.write(".gitignore", "/.trainstack/\n/calls\n/refused*\n/stale-*\n/breaks-*\n/nothing\n")
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


@pytest.mark.parametrize(
    ("changed", "stacks"),
    [
        ({}, []),
        ({"README.md": ""}, []),
        ({"stacks/Pulumi.gpu.yaml": "changed"}, ["gpu"]),
        ({"stacks/rendered/dev/operator/00-namespace.yaml": ""}, ["dev"]),
        ({"stacks/gitops/dev/kustomization.yaml": "", "stacks/Pulumi.dev.yaml": "changed"}, ["dev"]),
        ({"infra/upstream/jobset-0.11.1/manifests.yaml": ""}, []),
        ({"stacks/Pulumi.new-one.yaml": "", "stacks/Pulumi.gpu.yaml": ""}, ["gpu", "new-one"]),
    ],
)
def test_changed_stacks_are_those_of_the_branch(
    repository: Repository, changed: dict[str, str], stacks: list[str]
) -> None:
    for name, text in changed.items():
        repository.write(name, text)
    git(repository.root, "add", "--all")
    git(repository.root, "commit", "--quiet", "--allow-empty", "--message", "topic")
    git(repository.root, "switch", "--quiet", "main")
    repository.write("stacks/Pulumi.dev.yaml", "later, of others\n")
    repository.commit("later")
    git(repository.root, "switch", "--quiet", "topic")
    done = repository.run("ci/changed-stacks", "main")
    assert (done.returncode, done.stdout.split()) == (0, stacks), done.stderr


@pytest.mark.parametrize("renames", ["true", "copies", "false"])
def test_a_renamed_stack_is_one_that_goes_and_one_that_comes(repository: Repository, renames: str) -> None:
    git(repository.root, "config", "diff.renames", renames)
    git(repository.root, "mv", "stacks/Pulumi.gpu.yaml", "stacks/Pulumi.big.yaml")
    git(repository.root, "mv", "stacks/rendered/gpu", "stacks/rendered/big")
    repository.commit("topic")
    assert repository.run("ci/changed-stacks", "main").stdout.split() == ["big", "gpu"]
    assert repository.run("ci/review", "main", "page.md").returncode == 0
    page = (repository.root / "page.md").read_text()
    assert page.index("## Stack big\n") < page.index("## Stack `gpu`\n\nIts file goes.")


ODD_NAMES = [
    "`touch ran`",
    "$(touch ran)",
    "$(shell touch ran)",
    "a;touch ran",
    "größe",
    "a b",
    "a\nb",
    "a'b",
    '"',
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_no_stack_can_have_fails_and_runs_nothing(repository: Repository, name: str) -> None:
    repository.write(f"stacks/Pulumi.{name}.yaml", "planted\n")
    repository.commit("planted")
    done = repository.run("ci/review", "main", "page.md")
    assert done.returncode != 0
    assert "not the name of a stack" in done.stderr
    assert not (repository.root / "ran").exists()


def test_such_a_name_fails_where_only_the_program_has_changed(repository: Repository) -> None:
    git(repository.root, "switch", "--quiet", "main")
    repository.write("stacks/Pulumi.`touch ran`.yaml", "planted\n")
    repository.commit("planted")
    git(repository.root, "switch", "--quiet", "--create", "later")
    repository.write("storage/manifests.py", "changed\n")
    repository.commit("topic")
    done = repository.run("ci/review", "main", "page.md")
    assert done.returncode != 0
    assert "not the name of a stack" in done.stderr
    assert not (repository.root / "ran").exists()


def test_a_base_that_there_is_not_fails(repository: Repository) -> None:
    assert repository.run("ci/changed-stacks", "gone").returncode != 0
    assert repository.run("ci/review", "gone", "page.md").returncode != 0


def reviewed(repository: Repository) -> tuple[int, str]:
    for stack in ("dev", "gpu"):
        repository.write(f"stacks/Pulumi.{stack}.yaml", "changed\n")
    repository.commit("topic")
    done = repository.run("ci/review", "main", "page.md")
    return done.returncode, (repository.root / "page.md").read_text()


def test_a_review_has_a_page_of_each_changed_stack(repository: Repository) -> None:
    status, page = reviewed(repository)
    head = git(repository.root, "rev-parse", "HEAD")[:12]
    told = f"<!-- trainstack review -->\nThis is about commit `{head}`.\n\n"
    assert (status, page) == (0, f"{told}## Stack dev\n## Stack gpu\n")
    assert repository.calls == ["review dev main", "review gpu main"]


def test_a_page_names_the_commit_that_the_site_shows(repository: Repository) -> None:
    """GitHub checks out a merge that nobody has made."""
    done = repository.run("ci/review", "main", "page.md", COMMIT="0123456789abcdef")
    assert done.returncode == 0, done.stderr
    assert "This is about commit `0123456789ab`.\n" in (repository.root / "page.md").read_text()


def test_a_review_that_cannot_begin_leaves_no_page_of_an_earlier_commit(repository: Repository) -> None:
    repository.write("page.md", "<!-- trainstack review -->\nof an earlier commit\n")
    assert repository.run("ci/review", "gone", "page.md").returncode != 0
    head = git(repository.root, "rev-parse", "HEAD")[:12]
    told = f"This is about commit `{head}`.\n\nThe review failed; the log says why.\n"
    assert (repository.root / "page.md").read_text() == f"<!-- trainstack review -->\n{told}"


def test_without_a_changed_stack_the_page_says_so(repository: Repository) -> None:
    assert repository.run("ci/review", "main", "page.md").returncode == 0
    assert (repository.root / "page.md").read_text().endswith("No stack has changed.\n")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("refused-dev", "## Stack dev\n"),
        ("breaks-dev", "## Stack `dev`\n\nThe review failed"),
        ("stale-dev", "**The committed rendering is stale.** Run `make review STACK=dev`"),
    ],
)
def test_a_review_that_fails_still_shows_the_others(repository: Repository, what: str, said: str) -> None:
    repository.write(what, "")
    status, page = reviewed(repository)
    assert status == 1
    assert said in page
    assert "## Stack gpu\n" in page


RENDERED_TOO = "The other stacks were rendered, too: what all renderings are made of has changed."
# What a stack's rendering is made of beside its own file, one file of each.
SOURCES = [
    "Pulumi.yaml",
    "Pulumi.json",
    ".dockerignore",
    "infra/training_operator/patches.py",
    "storage/manifests.py",
    "trainer/train.py",
    "examples/own-script/train.py",
    "Dockerfile_training",
    "toolchain/tools/go/training-operator/go.mod",
    "toolchain/images/gpu-base.lock",
    "infra/upstream/jobset-0.11.1/manifests.yaml",
]


@pytest.mark.parametrize("changed", SOURCES)
def test_a_change_of_what_all_renderings_are_made_of_has_all_checked(
    repository: Repository, changed: str
) -> None:
    repository.write(changed, "changed\n")
    repository.commit("topic")
    assert repository.run("ci/review", "main", "page.md").returncode == 0
    assert repository.calls == ["review dev main", "review gpu main"]
    page = (repository.root / "page.md").read_text()
    assert page.splitlines()[3:] == ["No stack has changed.", RENDERED_TOO]


def test_each_of_the_sources_of_renderings_is_there_and_has_its_case() -> None:
    script = (ROOT / "ci" / "review").read_text()
    sources = re.findall(r"^sources=\((.*?)\)$", script, re.MULTILINE)[0].split()
    named = [name.strip("'") for name in sources]
    assert [name for name in named if not any(each.startswith(name.strip("*")) for each in SOURCES)] == []
    assert [name for name in named if not list(ROOT.glob(name))] == []


@pytest.mark.parametrize("changed", ["README.md", "docs/review.md", "tests/test.py", "toolchain/git.py"])
def test_a_change_of_anything_else_has_none_checked(repository: Repository, changed: str) -> None:
    repository.write(changed, "changed\n")
    repository.commit("topic")
    assert repository.run("ci/review", "main", "page.md").returncode == 0
    assert repository.calls == []


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("refused-gpu", "## Stack gpu\n"),
        ("breaks-gpu", "## Stack `gpu`\n\nThe review failed"),
        ("stale-gpu", "## Stack `gpu`\n\n**The committed rendering is stale.** Run `make review STACK=gpu`"),
    ],
)
@pytest.mark.parametrize("changes_a_stack", [True, False])
def test_a_stack_that_only_the_program_changes_is_named_where_something_is_wrong(
    repository: Repository, what: str, said: str, changes_a_stack: bool
) -> None:
    repository.write("trainer/train.py", "changed\n")
    repository.write(what, "")
    if changes_a_stack:
        repository.write("stacks/Pulumi.dev.yaml", "changed\n")
    repository.commit("topic")
    assert repository.run("ci/review", "main", "page.md").returncode == 1
    page = (repository.root / "page.md").read_text()
    assert said in page
    assert ("## Stack dev\n" in page) is changes_a_stack
    assert repository.calls == ["review dev main", "review gpu main"]


@pytest.mark.parametrize("left", [[], ["rendered"], ["gitops"], ["rendered", "gitops"]], ids="+".join)
def test_a_stack_that_goes_is_named_and_takes_its_renderings_along(
    repository: Repository, left: list[str]
) -> None:
    (repository.root / "stacks/Pulumi.dev.yaml").unlink()
    shutil.rmtree(repository.root / "stacks/rendered/dev")
    for folder in left:
        repository.write(f"stacks/{folder}/dev/jobs/job.yaml", "as it was\n")
    repository.commit("topic")
    assert repository.run("ci/review", "main", "page.md").returncode == (1 if left else 0)
    page = (repository.root / "page.md").read_text()
    assert "`make down STACK=dev`" in page
    folders = " ".join(f"stacks/{folder}/dev" for folder in left)
    assert ("git rm" in page) is bool(left)
    assert f"`git rm -r {folders}`" in page or not left


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


@pytest.mark.parametrize("line", ["| `größe` | 1 |\n", BLOCK, f"- one\n{BLOCK}"])
def test_a_page_is_cut_between_its_lines(line: str) -> None:
    shortened = runpy.run_path(str(ROOT / "ci" / "comment.py"))["shortened"]
    page = "<!-- trainstack review -->\n" + line * 100
    for most in range(len(page) - 4 * len(line), len(page)):
        cut = shortened(page, most)
        assert most - 100 < len(cut) <= most
        kept = cut.removesuffix(CUT)
        if not page.startswith(kept):
            kept = kept.removesuffix("```\n")  # what is a block in the page ends
        assert page.startswith(kept)
        assert kept.endswith("\n"), "whole lines"
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
    repository.write("refused-dev" if is_refused else "calls", "")
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
    # ci/review calls the one; the other is for the machines of ci/github/test.yml.
    called = {"changed-stacks", "own-plugins"}
    scripts = {path.name for path in (ROOT / "ci").iterdir() if path.is_file()} - called
    for site in ("github", "gitlab"):
        text = "".join(path.read_text() for path in WORKFLOWS if path.parent.name == site)
        assert [name for name in scripts if f"ci/{name}" not in text] == []
    assert "ci/changed-stacks" in (ROOT / "ci" / "review").read_text()


def test_the_blocks_of_the_page_copy_and_run_them(repository: Repository) -> None:
    assert repository.run("bash", "-e", "-c", block("mkdir -p .github")).returncode == 0
    copied = {path.name for path in (repository.root / ".github" / "workflows").iterdir()}
    assert copied == {path.name for path in WORKFLOWS if path.parent.name == "github"}
    assert yaml.safe_load((repository.root / ".gitlab-ci.yml").read_text())
    done = repository.run("bash", "-e", "-c", block("ci/review main"))
    assert done.returncode == 0, done.stderr
    assert "No stack has changed." in (repository.root / "page.md").read_text()


def test_every_make_line_of_the_page_is_a_command() -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = {line.partition("#")[0].strip() for each in blocks for line in each.splitlines()}
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
