"""Writes a page into a pull or merge request: a new comment, or the one that an earlier run has written.

Usage: python3 ci/comment.py PAGE NUMBER. On GitHub it needs GITHUB_TOKEN with `pull-requests: write`, on GitLab
REVIEW_TOKEN, a project's access token with the scope `api`.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PER_PAGE = 100
# Characters of a comment: by GitHub's answer to a longer one, and https://docs.gitlab.com/administration/instance_limits/.
MOST_ON_GITHUB, MOST_ON_GITLAB = 65_536, 1_000_000
FENCE = "```"
OPENS, CLOSES = "<details>", "</details>"
# Characters for what has to be closed where a page is cut.
ROOM = 100
CUT = "\n**The page is cut here: it is longer than a comment may be. The job has all of it.**\n"
ANSWER_S = 60


class Site:
    """Where comments are, and how they are changed there."""

    def __init__(self, number: str) -> None:
        found = os.environ
        if "GITLAB_CI" in found:
            project = f"{found['CI_API_V4_URL']}/projects/{found['CI_PROJECT_ID']}"
            self.comments = self.existing = f"{project}/merge_requests/{number}/notes"
            self.headers, self.change = {"PRIVATE-TOKEN": found["REVIEW_TOKEN"]}, "PUT"
            self.most = MOST_ON_GITLAB
        else:
            repository = f"{found['GITHUB_API_URL']}/repos/{found['GITHUB_REPOSITORY']}/issues"
            self.comments, self.existing = f"{repository}/{number}/comments", f"{repository}/comments"
            self.headers, self.change = {"Authorization": f"Bearer {found['GITHUB_TOKEN']}"}, "PATCH"
            self.most = MOST_ON_GITHUB

    def ask(self, method: str, url: str, body: str | None = None) -> Any:
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {**self.headers, "Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return json.load(answer)

    def all(self) -> Iterator[dict[str, Any]]:
        """Every comment, the oldest first."""
        page = 1
        while found := self.ask("GET", f"{self.comments}?per_page={PER_PAGE}&page={page}"):
            yield from found
            if len(found) < PER_PAGE:
                return
            page += 1


def shortened(text: str, most: int) -> str:
    """`text`, cut behind a line where it has more than `most` characters; what is open there is closed."""
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


def main(page: str, number: str) -> int:
    """Write the page; 1, and why, where the site refuses it."""
    text = Path(page).read_text()
    mark = text.partition("\n")[0]
    site = Site(number)
    text = shortened(text, site.most)
    try:
        ours = next((each for each in site.all() if each["body"].startswith(mark)), None)
        if ours:
            site.ask(site.change, f"{site.existing}/{ours['id']}", text)
        else:
            site.ask("POST", site.comments, text)
    except (urllib.error.URLError, TimeoutError) as error:
        print(f"the page was not written into request {number}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
