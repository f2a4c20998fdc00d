"""Reads upstream's manifests through `kubectl kustomize`."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.process import CommandError, output

VERSION = "v1.9.3"
URL = f"https://github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref={VERSION}"
OVERLAY = "TRAINSTACK_OPERATOR_OVERLAY"
# A Git reference does not change; of a folder we look at its files.
PINNED = re.compile(r"\?ref=v\d")


def location(environment: Mapping[str, str] = os.environ) -> str:
    """The folder or URL of the overlay: what `environment` names, else upstream's own of VERSION."""
    return environment.get(OVERLAY) or URL


def rendered(where: str, cache: Path) -> list[dict[str, Any]]:
    """The objects of the overlay at `where`, a folder or a URL. Raises CommandError.

    They are kept as JSON in the folder `cache`: kubectl clones a repository each time, and reading 3 MB of YAML takes
    seconds.
    """
    key = identity(where)
    kept = cache / f"operator-{key}.json"
    if key and kept.exists():
        found: list[dict[str, Any]] = json.loads(kept.read_text())
        return found
    try:
        text = output("kubectl", "kustomize", where)
    except CommandError as error:
        if where != URL:
            raise
        hint = "where that repository cannot be reached, `make review` takes the files from the operator's Go module"
        raise CommandError(f"{error}\n  fix: {hint}; put Go on PATH") from None
    loaded = list(yaml.load_all(text, Loader=_Loader))
    if key:
        cache.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(loaded))
        partial.replace(kept)
    return loaded


def identity(where: str) -> str | None:
    """Changes when the overlay does; None for a URL that names a branch."""
    if PINNED.search(where):
        return hashlib.sha256(where.encode()).hexdigest()[:12]
    folder = Path(where)
    if not folder.is_dir():
        return None
    # An overlay takes its base from a folder beside `overlays`.
    root = folder.parent.parent if folder.parent.name == "overlays" else folder
    files = sorted(path for path in root.rglob("*") if path.is_file())
    described = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]


# The CRDs are 3 MB of YAML; libyaml reads them ten times as fast where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
