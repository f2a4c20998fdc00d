"""rancher's local-path-provisioner on a cluster of a test: a storage class that really provisions.

The manifest is the module's own, with our two images instead of its tags: the provisioner's, and a busybox for the pods
that make and remove folders on the nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.project import Project
from toolchain.images import scratch
from toolchain.machine.engine import Engine
from toolchain.paths import LOGS, cache
from toolchain.tools import build

CLASS = "local-path"
NAMESPACE = "local-path-storage"
MODULE, PATH = "local-path-provisioner", "github.com/rancher/local-path-provisioner"


def install(project: Project, engine: Engine) -> None:
    """Build it, bring its images to the nodes, and wait until it runs."""
    log = LOGS / "images.log"
    provisioner = image(engine, build.build(MODULE) / MODULE)
    helper = scratch.init(engine, cache() / "debian", log)
    project.run("kind", "load", "docker-image", provisioner, helper, "--name", project.cluster)
    deployed = build.source(MODULE, PATH, "deploy") / "local-path-storage.yaml"
    file = project.root.parent / "local-path.yaml"
    file.write_text(yaml.safe_dump_all(manifests(deployed.read_text(), provisioner, helper)))
    project.run("kubectl", "apply", "--filename", str(file))
    waits = ["--for=condition=Available", f"deployment/{MODULE}", "--namespace", NAMESPACE]
    project.run("kubectl", "wait", *waits, "--timeout=600s", timeout=700)


def image(engine: Engine, program: Path) -> str:
    """The program on nothing at all, where upstream's manifest calls it."""
    name = f"trainstack/{MODULE}:{scratch.digest(program)}"
    if engine.has_image(name):
        return name
    return scratch.build(engine, name, {f"usr/local/bin/{MODULE}": program}, LOGS / "images.log")


def manifests(text: str, provisioner: str, helper: str) -> list[dict[str, Any]]:
    """Upstream's objects with other images."""
    objects = [each for each in yaml.safe_load_all(text) if each]
    for each in objects:
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            container["image"] = provisioner
        elif each["kind"] == "ConfigMap":
            pod = yaml.safe_load(each["data"]["helperPod.yaml"])
            pod["spec"]["containers"][0]["image"] = helper
            each["data"]["helperPod.yaml"] = json.dumps(pod)
    return objects
