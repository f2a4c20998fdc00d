"""`python3 bill.py FILE`: the packages of the image that this runs in, as a CycloneDX 1.6 bill of materials (ECMA-424).

The image's build runs this, so each image contains its list. It needs only Python, because the image has no library for
this. Names and versions come from dpkg and from each distribution's metadata. The same packages give the same file: it
has no date and no serial number.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

# Debian's packages install their Python modules here; dpkg lists them.
DEBIAN_S = Path("/usr/lib/python3/dist-packages")
LISTED = "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"


def debian() -> Iterator[dict[str, str]]:
    """The installed packages of dpkg; none in an image without dpkg."""
    query = ["dpkg-query", "--show", f"--showformat={LISTED}"]
    try:
        listed = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return
    system = platform.freedesktop_os_release()["ID"]  # `debian`, or another system with dpkg
    for line in listed.splitlines():
        state, name, version, architecture = line.split("\t")
        if state.strip() == "ii":
            purl = f"pkg:deb/{system}/{name}@{quote(version)}?arch={architecture}"
            yield component(name, version, purl)


def python() -> Iterator[dict[str, str]]:
    """The Python distributions that no Debian package contains."""
    for found in metadata.distributions():
        if Path(str(found.locate_file(""))) != DEBIAN_S:
            name = found.metadata["Name"]
            yield component(
                name, found.version, f"pkg:pypi/{name.lower().replace('_', '-')}@{quote(found.version)}"
            )


def component(name: str, version: str, purl: str) -> dict[str, str]:
    """One package. `purl`: its package URL, https://github.com/package-url/purl-spec."""
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def document() -> str:
    """The bill, with each package once, ordered by its package URL."""
    found = {each["purl"]: each for each in (*debian(), *python())}
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [found[purl] for purl in sorted(found)],
    }
    return json.dumps(bill, indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document())
