"""Whether the rendered objects have the shape that the API server and the operator's CRD ask for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from infra import agreed, process
from infra.objects.job_kinds import NAMES, RUNTIME
from infra.review import folder, schemas
from infra.review.text import objects_in
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored

OF_OPERATORS = {*NAMES, RUNTIME}


class NotCheckedError(RuntimeError):
    """What the check needs is not here; the text says what."""


def mismatches(files: Mapping[str, str]) -> list[str]:
    """One sentence for each object of `files`, path to contents, that has another shape; asks no network.

    Raises NotCheckedError.
    """
    document = Path(process.variables().get(agreed.OPENAPI, os.devnull))
    where = process.variables().get("PATH")
    if not document.is_file() or shutil.which("kubeconform", path=where) is None:
        raise NotCheckedError(
            "kubeconform and the API server's schemas are not here; `make review` gets them with Go"
        )
    found = [each for content in files.values() for each in objects_in(content)]
    wanted = {schemas.file_of(each) for each in found}
    of_server = schemas.of_server(json.loads(document.read_text()), wanted.__contains__)
    jobs = {each["kind"] for each in found} & OF_OPERATORS
    known = of_server | (_of_operators() if jobs else {})
    with tempfile.TemporaryDirectory(prefix="trainstack-review-") as place:
        of_schemas, of_objects = Path(place) / "schemas", Path(place) / "objects"
        for each in (of_schemas, of_objects):
            each.mkdir()
        return _told(schemas.write(of_schemas, known), of_objects, files)


def _of_operators() -> dict[str, schemas.Schema]:
    """File's name -> schema, of the kinds that the operators define."""
    projects = [project for each in folder.PROJECTS.values() for project in each]
    crds = [each for project in projects for each in vendored.objects(project) if each["kind"] == CRD_KIND]
    return {file: schema for crd in crds for file, schema in schemas.of_crd(crd).items()}


def _told(location: str, place: Path, files: Mapping[str, str]) -> list[str]:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    command = ["kubeconform", "-strict", "-output", "json", "-schema-location", location, str(place)]
    done = subprocess.run(command, env=process.variables(), capture_output=True, text=True)
    if not done.stdout:
        raise NotCheckedError(f"kubeconform failed: {done.stderr.strip()}")
    told = json.loads(done.stdout).get("resources") or []
    wrong = (each for each in told if each["status"] != "statusValid")
    return [
        f"{os.path.relpath(each['filename'], place)}: {each['kind']} {each['name']}: {each['msg']}"
        for each in wrong
    ]
