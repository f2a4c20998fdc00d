"""Writes the page of a review into its pull request: as a new comment, or into the comment of an earlier run.

Usage: python3 ci/comment.py RUN
RUN is the id of a run of GitHub Actions that has reviewed a pull request.
GITHUB_TOKEN needs `actions: read` and `pull-requests: write`.

This program has a token that can write. The run has executed a branch's own code, so the run's artifact may contain
anything: this program uses the artifact only as text. It asks GitHub which pull request the run belongs to.
"""

from __future__ import annotations

import io
import json
import os
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

PER_PAGE = 100
# The most characters that a comment may have. GitHub's answer to a longer comment names the number.
MOST = 65_536
# The most bytes of an artifact, and of the page in it.
MOST_READ = 16 * 2**20
ARTIFACT, PAGE = "review-page", "page.md"
AUTHOR = "github-actions[bot]"
"""The author of comments that a workflow's token writes."""
MARK = "<!-- trainstack review -->"
"""The first line of our comment, and of the page."""
FENCE = "```"
OPENS, CLOSES = "<details>", "</details>"
# Characters for the closing lines at the end of a cut page.
ROOM = 100
CUT = "\n**The page is cut here: it is longer than a comment may be. The run has all of it.**\n"
ANSWER_S = 60


class PageError(Exception):
    """One sentence that says why no page can be written."""


class Repository:
    """Requests to GitHub's API about one repository."""

    def __init__(self) -> None:
        self.address = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"

    def read(self, path: str, method: str = "GET", body: str | None = None) -> bytes:
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/vnd.github+json"}
        request = urllib.request.Request(f"{self.address}/{path}", data=data, headers=headers, method=method)
        # An artifact redirects to another host, which must not get the token.
        request.add_unredirected_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            found: bytes = answer.read(MOST_READ + 1)
        if len(found) > MOST_READ:
            raise PageError(f"GitHub's answer for {path} is longer than {MOST_READ} bytes")
        return found

    def ask(self, path: str, method: str = "GET", body: str | None = None) -> Any:
        return json.loads(self.read(path, method, body))

    def all(self, path: str, **options: str) -> Iterator[dict[str, Any]]:
        """Every entry of a list, the oldest first."""
        page = 1
        while found := self.ask(f"{path}?{urlencode({**options, 'per_page': PER_PAGE, 'page': page})}"):
            yield from found
            if len(found) < PER_PAGE:
                return
            page += 1


def page_of(repository: Repository, run: dict[str, Any]) -> str:
    """The text of the page, read in memory: nothing of the archive is written to disk. Raises PageError."""
    listed = repository.ask(f"actions/runs/{run['id']}/artifacts?name={quote(ARTIFACT)}")["artifacts"]
    if not listed:
        raise PageError(f"run {run['id']} has no artifact {ARTIFACT}")
    newest = max(listed, key=lambda each: int(each["id"]))  # from the run's last attempt
    packed = io.BytesIO(repository.read(f"actions/artifacts/{newest['id']}/zip"))
    try:
        with zipfile.ZipFile(packed) as archive, archive.open(PAGE) as file:
            found = file.read(MOST_READ + 1)
        text = found.decode()
    except (zipfile.BadZipFile, zlib.error, KeyError, RuntimeError, EOFError, OSError, UnicodeDecodeError):
        raise PageError(f"artifact {ARTIFACT} of run {run['id']} has no readable file {PAGE}") from None
    if len(found) > MOST_READ or text.partition("\n")[0] != MARK:
        raise PageError(
            f"{PAGE} of run {run['id']} is not a review's page, or is longer than {MOST_READ} bytes"
        )
    return text.partition("\n")[2]


def request_of(repository: Repository, run: dict[str, Any]) -> int | None:
    """The number of the open pull request that the run reviewed, found by the branch and commit that GitHub names.

    None if the commit is no longer the last commit of an open pull request. Raises PageError.
    """
    if run["event"] != "pull_request":
        raise PageError(f"run {run['id']} did not review a pull request: its event is {run['event']}")
    source = run["head_repository"]
    if source is None:  # the fork was deleted
        return None
    branch = f"{source['owner']['login']}:{run['head_branch']}"
    numbers = [
        int(each["number"])
        for each in repository.all("pulls", state="open", head=branch)
        if each["head"]["sha"] == run["head_sha"] and (each["head"]["repo"] or {}).get("id") == source["id"]
    ]
    if len(numbers) > 1:
        raise PageError(f"commit {run['head_sha']} is the last commit of several pull requests: {numbers}")
    return numbers[0] if numbers else None


def shortened(text: str, most: int) -> str:
    """`text`, cut after a line if it has more than `most` characters; open fences and folds are closed."""
    if len(text) <= most:
        return text
    room = text[: most - len(CUT) - ROOM]
    kept = room[: room.rindex("\n") + 1]
    fence, open_folds = "", 0
    for line in kept.splitlines():
        marks = line[: len(line) - len(line.lstrip("`"))]
        if not fence and line in (OPENS, CLOSES):
            open_folds += 1 if line == OPENS else -1
        elif fence:
            fence = "" if line == fence else fence
        elif len(marks) >= len(FENCE):
            fence = marks
    return kept + (f"{fence}\n" if fence else "") + f"\n{CLOSES}\n" * open_folds + CUT


def write(repository: Repository, number: int, text: str) -> None:
    """Write a comment with `text`, or replace our earlier one. Another author's comment stays, even with our mark."""
    for each in repository.all(f"issues/{number}/comments"):
        if each["user"]["login"] == AUTHOR and each["body"].partition("\n")[0].strip() == MARK:
            repository.ask(f"issues/comments/{each['id']}", "PATCH", text)
            return
    repository.ask(f"issues/{number}/comments", "POST", text)


def main(number: str) -> int:
    """Write the page of run `number`; returns 1, and prints why, if there is no page or GitHub refuses it."""
    repository = Repository()
    try:
        run = repository.ask(f"actions/runs/{int(number)}")
        request = request_of(repository, run)
        if request is None:
            print(
                f"nothing is written: {run['head_sha']} is no longer the last commit of an open pull request"
            )
            return 0
        # This line comes from us, not from the page.
        head = f"[This run]({run['html_url']}) has reviewed `{run['head_sha'][:12]}`, with that commit's own code."
        text = f"{MARK}\n{head}\n\n{page_of(repository, run)}"
        write(repository, request, shortened(text, MOST))
    except (PageError, urllib.error.URLError, TimeoutError) as error:
        print(f"the page of run {number} was not written: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
