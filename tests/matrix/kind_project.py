"""A clone with a kind stack, whose `make up` takes changed keys and whose cluster and models tell what became of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml

from infra.clusters.kind.config import MODELS
from infra.objects.labels import RUN
from tests.e2e.project import Project
from tests.matrix.judging import Objects, by_key, files_at_risk, half_gone
from tests.matrix.project import set_key

KINDS = "namespaces,persistentvolumes,persistentvolumeclaims,pods,pytorchjobs"
SERVER = "jsonpath={.clusters[0].cluster.server}"
UNCHANGED = re.compile(r"^Resources:\n +\d+ unchanged$", re.MULTILINE)
"""The whole summary of an update that changed nothing: what changed stands before the count of what did not."""


class KindProject:
    """The stack of `clone`, as committed and with changed keys."""

    def __init__(self, clone: Project) -> None:
        self.clone = clone
        self.original = clone.stack_file.read_text()
        self._standing: dict[str, Any] | None = None
        self.is_chained = False
        """Whether what stands differs from what is committed in keys that make another cluster, and in nothing else."""

    def up(self, **changes: Any) -> str:
        """`make up` with `changes` (path of a key, to value) in the stack file; returns what it printed."""
        self._configure(changes)
        self._standing, self.is_chained = None, False
        printed = self.clone.up()["output"]
        self._standing = changes
        return printed

    def stand(self, **changes: Any) -> None:
        """As `up`, where the last `make up` was not this one."""
        if self._standing != changes:
            self.up(**changes)

    def _configure(self, changes: dict[str, Any]) -> None:
        settings = yaml.safe_load(self.original)
        for path, value in changes.items():
            section, *rest = path.split(".")
            set_key(settings["config"], [f"trainstack:{section}", *rest], value)
        self.clone.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))

    def settled(self) -> Objects:
        """The cluster's objects; `make up` has said that none of ours is half gone, and so it must be."""
        listed = self.clone.run("kubectl", "get", KINDS, "--all-namespaces", "--output", "json")
        found = by_key(json.loads(listed.stdout)["items"])
        assert not half_gone(found, self.clone.stack)
        assert not files_at_risk(found)
        return found

    def assert_shape(self) -> None:
        """Nodes, port and folder of the models are those of the stack file; a port that is not given is any."""
        config = self.clone.config()
        cluster, storage = config["trainstack:cluster"], config.get("trainstack:storage", {})
        workers = range(cluster.get("workers", 0))
        nodes = ["control-plane", *(f"worker{place + 1 if place else ''}" for place in workers)]
        found = sorted(each["metadata"]["name"] for each in self.clone.get("nodes")["items"])
        assert found == [f"{cluster['name']}-{node}" for node in nodes]
        server = self.clone.run("kubectl", "config", "view", "--minify", "--output", SERVER).stdout
        port = int(server.rpartition(":")[2])
        assert port == cluster.get("apiServerPort", port)
        usual = f"trainstack-{self.clone.stack}-models"
        volume = self.clone.get("persistentvolume", storage.get("volume", usual))
        assert volume["spec"]["hostPath"]["path"] == storage.get("hostPath", MODELS)

    def models(self) -> dict[str, str]:
        """Path below the models' folder -> SHA-256, of the latest model and of each run's."""
        return {str(file.relative_to(self.clone.models)): sha256(file) for file in self._model_files()}

    def _model_files(self) -> list[Path]:
        return [*self.clone.models.glob("*.pt"), *self.clone.models.glob("runs/*/mnist_cnn.pt")]

    def assert_outputs_name_the_model(self, found: Objects) -> None:
        """The outputs' jobs are those of the cluster, and each one's model is there and is its run's."""
        outputs = self.clone.outputs()
        jobs = {each["metadata"]["name"]: each for each in found.values() if each["kind"] == "PyTorchJob"}
        assert outputs["jobs"].keys() == jobs.keys()
        leaves = self.clone.config()["trainstack:job"].get("model", "")
        for name, told in outputs["jobs"].items():
            if leaves is None:
                assert told["modelPath"] is None
                continue
            own = self.clone.models / "runs" / jobs[name]["metadata"]["labels"][RUN] / "mnist_cnn.pt"
            assert sha256(self.clone.root / told["modelPath"]) == sha256(own)


def closed_to_the_group(models: Path) -> list[str]:
    """What the trainer has made in `models` that another user of the folder's group could not go on with.

    `make up` adds files of its own to a run; nobody goes on with those.
    """
    group, found = models.stat().st_gid, []
    for each in (models / "runs").rglob("*"):
        status, least = each.stat(), stat.S_IRWXG if each.is_dir() else stat.S_IRGRP | stat.S_IWGRP
        is_open = status.st_gid == group and status.st_mode & least == least
        if not is_open and (each.is_dir() or status.st_uid != os.getuid()):
            found.append(f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {each}")
    return found


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
