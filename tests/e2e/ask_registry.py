"""Runs in a pod: what somebody who knows no password asks a registry for, and what it answers, as JSON.

Arguments: the registry's address, the repository and digest of an image, the repository and tag of the operator's.
"""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def attempts(repository: str, digest: str, operator: str, tag: str) -> dict[str, tuple[str, str]]:
    """What is tried -> method and path."""
    return {
        "list the repositories": ("GET", "_catalog"),
        "list the tags": ("GET", f"{repository}/tags/list"),
        "pull": ("GET", f"{repository}/manifests/{digest}"),
        "push": ("POST", f"{repository}/blobs/uploads/"),
        "delete": ("DELETE", f"{repository}/manifests/{digest}"),
        "replace the operator's image": ("PUT", f"{operator}/manifests/{tag}"),
    }


def ask(method: str, url: str, headers: dict[str, str]) -> list[str]:
    """Status, and how the registry wants to be logged in to."""
    data = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST}).encode() if method == "PUT" else None
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [str(answer.status), ""]
    except urllib.error.HTTPError as error:
        return [str(error.code), error.headers.get("WWW-Authenticate", "")]


def main(address: str, *image: str) -> None:
    guess = base64.b64encode(b"trainstack:trainstack").decode()
    found = {}
    for name, (method, path) in attempts(*image).items():
        for known, login in (("", {}), (", with a guess", {"Authorization": f"Basic {guess}"})):
            found[name + known] = ask(
                method, f"http://{address}/v2/{path}", {"Content-Type": MANIFEST, **login}
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
