"""What the program registers, on Pulumi's mocks: every resource with its inputs and options, and so every run's id.

`registrations/<name>.jsonl` holds a line for each resource, sorted. A base in WHOLE has them all. Of every other stack,
and of each configuration in CHANGED, the record holds what differs from its base: a new resource whole; of another one
the values that changed, by their path, with null for what is gone. A definition's versions are a digest. The files that
the trainer image is made of count for nothing here, so that a change of `trainer/` leaves the runs' ids.

Whoever means to register something else writes the records again, and the difference is reviewed with the change:

    WRITE_REGISTRATIONS=1 .venv/bin/python -m pytest -q tests/unit/infra/test_registrations.py
"""

from __future__ import annotations

import asyncio
import base64
import copy
import functools
import hashlib
import json
import os
import re
import runpy
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dill
import pulumi
import pytest
from google.protobuf import json_format
from pulumi.runtime import resource as sdk
from pulumi.runtime import settings
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.stack import Stack

from infra import agreed, dataset, docker, paths, stack_plan
from infra.cluster_kinds import ClusterKind
from infra.clusters import addresses, selection
from infra.clusters.discovery import ClusterContents
from infra.clusters.existing import component
from infra.config import shell_variables
from infra.config.load import from_raw, read
from infra.image import inputs, project
from infra.objects.manifest import Manifest
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored
from tests.matrix import entries
from tests.matrix.project import BASE, set_key
from tests.unit.infra.config import test_sweep
from tests.unit.infra.recorder import PROGRAM, Recorder, hand_over

Line = dict[str, Any]
RECORDS = Path(__file__).with_name("registrations")
WRITE = "WRITE_REGISTRATIONS"
_read = vendored.objects
STACKS = sorted(each.stem.removeprefix("Pulumi.") for each in (paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
# What set-up hands to the program on a machine that builds its own images.
BUILT_HERE = {
    f"TRAINSTACK_{name}": f"trainstack/{name.lower()}:0"
    for name in [
        "NODE_IMAGE",
        "REGISTRY_IMAGE",
        "CPU_BASE",
        "OPERATOR_IMAGE",
        "INIT_IMAGE",
        "TRAINER_IMAGE",
        "JOBSET_IMAGE",
        "KUEUE_IMAGE",
    ]
}
OURS, OTHERS = "dev", "matrix"
WHOLE: dict[str, dict[str, Any]] = {OURS: read(paths.stack_file(OURS)), OTHERS: BASE}
"""Name of a base -> its sections: a stack on a cluster of its own, and the change matrix's on a cluster of others."""
KEYS = {
    OTHERS: """
        cluster.guard cluster.quota.pods cluster.limitRange.memoryRatio
        storage.kind storage.volume storage.prepare storage.shared storage.keepRuns.number storage.node
        image.unpinned job.replicas.worker job.restartPolicy job.training.epochs job.envFrom.prefix
        job.egress.namespace job.data.claim job.data.folder job.data.nfs.server job.data.configMap
        job.elasticPolicy.maxRestarts job.runPolicy.schedulingPolicy job.pod job.queue job.rerun
        matrix.options matrix.maxParallel jobs
    """,
    OURS: """
        cluster.workers cluster.apiServerPort operator.namespace image.preset image.context job.model
    """,
}
"""Of the change matrix."""
OF_THE_MATRIX = {
    key: (base, {**entries.OBJECTS, **entries.ON_KIND}[key].applied(key))
    for base, keys in KEYS.items()
    for key in keys.split()
}
KUEUE = {
    "operator.queue": "kueue",
    "job.queue": "training",
    "job.priority": "urgent",
    "cluster.queue": entries.QUEUE,
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "operator.api": (OURS, {"operator.api": "v2"}),
    "operator.queue": (OURS, KUEUE),
    "operator.concurrency": (OURS, {"operator.concurrency": 4, "operator.qps": 50, "operator.burst": 100}),
    "operator.install": (OTHERS, {"operator": {"install": "always", "namespace": "training-operator"}}),
    "storage.kind class": (OTHERS, {"storage.kind": "class", "storage.storageClass": "fast"}),
    "storage.kind claim": (OTHERS, {"storage": {"kind": "claim", "claim": "theirs"}}),
    "cluster.kind": (OURS, {"cluster.kind": "microk8s"}),
    "image.repository": (OURS, {"image.repository": "registry.example/trainer"}),
    "job.env of the cluster": (OTHERS, {"job.env": {"TOKEN": {"secure": "v1:cipher"}}}),
    "operator.api with job.env": ("operator.api", {"job.env": {"TOKEN": {"secure": "v1:cipher"}}}),
    "operator.api with a queue": ("operator.api", {"job.queue": "team-a"}),
    "storage.kind class, images built here": (
        "image.repository",
        {"storage": {"kind": "class", "storageClass": "fast"}},
    ),
    "sweep under way": (OURS, {"job": test_sweep.JOB, "sweep.options": test_sweep.LR}),
    "images built here": (OURS, {}),
    "operator.api, images built here": ("operator.api", {}),
    "operator.queue, images built here": ("operator.queue", {}),
}
CHANGED = {**OF_THE_MATRIX, **MORE}
# What the SDK says of itself in each request, and where in the source it was called.
NOT_OURS = {
    *("acceptSecrets", "acceptResources", "aliasSpecs", "supportsPartialValues", "supportsResultReporting"),
    *("sourcePosition", "stackTrace", "parentStackTraceHandle", "custom", "deleteBeforeReplaceDefined"),
}
UNORDERED = ("dependencies", "ignoreChanges", "replaceOnChanges", "aliases", "additionalSecretOutputs")
SECRET = "4dabf18193072939515e22adb298388d"
"""The key by which Pulumi's protocol marks a secret."""


class _Monitor(MockMonitor):
    """Keeps each request as a line."""

    def __init__(self, mocks: Recorder) -> None:
        super().__init__(mocks)
        self.lines: list[Line] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        told = json_format.MessageToDict(request)
        self.lines.append(_line({key: value for key, value in told.items() if key not in NOT_OURS}))
        return response


def _line(told: Line) -> Line:
    """A request with its inputs at the end, and what says nothing left out."""
    given = _plain(told.pop("object", {}))
    if "__provider" in given:
        found = type(dill.loads(base64.b64decode(given["__provider"])))
        given["__provider"] = f"{found.__module__}.{found.__qualname__}"
    if told.get("version") == version("pulumi-kubernetes"):
        told["version"] = "installed"
    read_from = {
        key: sorted(_plain(each["urns"]))
        for key, each in told.pop("propertyDependencies", {}).items()
        if each
    }
    options = {key: value for key, value in _plain({**told, "readFrom": read_from}).items() if value != {}}
    options |= {key: sorted(options[key]) for key in UNORDERED if key in options}
    return {"type": options.pop("type"), "name": options.pop("name"), **options, "inputs": given}


def _plain(value: Any) -> Any:
    """`value` with short URNs, whole numbers, secrets marked as such, and folders of this machine by name."""
    if isinstance(value, dict):
        if SECRET in value:
            return {"secret": _plain(value["value"])}
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return _short(
            value.replace(paths.portable(paths.STATE), ".trainstack").replace(str(paths.ROOT), "ROOT")
        )
    return value


def _short(urn: str) -> str:
    """A URN's own type and name; what is no URN as it is."""
    if not urn.startswith("urn:pulumi:"):
        return urn
    *_, types, name = urn.removesuffix("::").split("::")[:4]
    return f"{types.rpartition('$')[2]}::{name}"


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def registered(
    stack: str, sections: Mapping[str, Any], variables: Callable[[], Mapping[str, str]] = dict
) -> list[Line]:
    """The lines of `stack`, registered with its file's `sections` and set-up's `variables`."""
    settings.ROOT.set(None)
    asyncio.set_event_loop(asyncio.new_event_loop())
    mocks = Recorder()
    monitor, outputs = _Monitor(mocks), dict[str, Any]()
    known = from_raw(stack, dict(sections), f"stacks/Pulumi.{stack}.yaml")
    taken = known.cluster.kind is ClusterKind.EXISTING and known.operator.install != "always"
    found = stack_plan.ASSUMED if taken else ClusterContents()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        for each in [each for each in os.environ if each.startswith(("TRAINSTACK_", "PULUMI_"))]:
            patch.delenv(each)
        patch.setenv("PULUMI_CONFIG", "")
        patch.setattr(pulumi, "get_root_directory", lambda: folder)
        hand_over(sections, Path(folder), stack)
        patch.setattr(docker, "labelled", lambda label: [])
        for kind in selection.PROTOCOLS.values():
            patch.setattr(type(kind), "is_gone", lambda *asked: True)
        for module in (component, addresses):
            patch.setattr(module, "kubeconfig_path", lambda chosen: Path("/nowhere"))
        patch.setattr(selection, "examine", lambda chosen, is_ours, asked: found)
        patch.setattr(dataset, "resolve", lambda chosen, folder, root: chosen)
        patch.setattr(inputs, "files", lambda root: [])
        patch.setattr(project, "build", _build_by_name)
        # A quarter of the time, for what NOT_OURS leaves out.
        patch.setattr(sdk, "_get_stack_trace", source_pb2.StackTrace)
        patch.setattr(vendored, "objects", _shortened)
        patch.setattr(shell_variables, "RECORD", Path(folder) / "env.json")
        shell_variables.RECORD.write_text(json.dumps(BUILT_HERE))
        for variable, value in variables().items():
            patch.setenv(variable, value)
        pulumi.runtime.set_mocks(mocks, project="trainstack", stack=stack, preview=False, monitor=monitor)

        @pulumi.runtime.test
        def whole_program() -> pulumi.Output[None]:
            runpy.run_path(str(PROGRAM), run_name="__main__")
            root = settings.get_root_resource()
            assert isinstance(root, Stack)
            return pulumi.Output.from_input(root.outputs).apply(outputs.update)

        whole_program()
    told = [{"type": "output", "name": name, "value": _plain(value)} for name, value in outputs.items()]
    return sorted([*monitor.lines, *told], key=_key)


def _build_by_name(
    folder: Path, dockerfile: Path | None, arguments: Mapping[str, str], trainer: str | None
) -> project.ProjectBuild:
    """As project.build, whatever the files in `folder` hold."""
    named = _digest([folder.name, dockerfile and dockerfile.name, dict(arguments), trainer])
    return project.ProjectBuild(arguments, trainer, named.removeprefix("sha256:")[:12])


@functools.cache
def _shortened(project: str) -> list[Manifest]:
    """As vendored.objects, with a digest of what is long."""
    found = copy.deepcopy(_read(project))
    for each in found:
        if each["kind"] == CRD_KIND:
            each["spec"]["versions"] = _digest(each["spec"]["versions"])
    return found


def _key(line: Line) -> str:
    """What a line of a record is about."""
    return line.get("changed") or line.get("gone") or f"{line['type']}::{line['name']}"


def sections_of(name: str) -> dict[str, Any]:
    """The sections of a base, or of a base's with what CHANGED says of `name`."""
    if name in WHOLE:
        return copy.deepcopy(WHOLE[name])
    base, changes = CHANGED[name]
    sections = sections_of(base)
    for path, value in changes.items():
        set_key(sections, path.split("."), value)
    return {key: section for key, section in sections.items() if section is not None}


def stack_of(name: str) -> str:
    """The stack that a configuration is one of."""
    return name if name in WHOLE else stack_of(CHANGED[name][0])


@functools.cache
def of_base(name: str) -> list[Line]:
    """The lines of a configuration that others are compared with."""
    return registered(stack_of(name), sections_of(name))


def of_dev(stack: str) -> list[Line]:
    """The lines of `dev` with the name of `stack` in place of its own."""
    return [json.loads(re.sub(r"\bdev\b(?!/)", stack, json.dumps(each))) for each in of_base(OURS)]


def differences(old: list[Line], new: list[Line]) -> list[Line]:
    """What `new` has otherwise than `old`: whole lines, and the values of changed ones by their path."""
    before, after = ({_key(each): each for each in lines} for lines in (old, new))
    assert (len(before), len(after)) == (len(old), len(new)), "type and name tell resources apart"
    found: list[Line] = []
    for key in sorted({*before, *after}):
        if key not in before:
            found.append(after[key])
        elif key not in after:
            found.append({"gone": key})
        elif before[key] != after[key]:
            was, now = (dict(_leaves(each[key])) for each in (before, after))
            changed = {path: now.get(path) for path in {**was, **now} if was.get(path) != now.get(path)}
            found.append({"changed": key, **changed})
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in below:
        yield from _leaves(each, f"{path}.{key}" if path else str(key))
    if not isinstance(value, (dict, list)) or not value:
        yield path, value


def compare(name: str, lines: list[Line]) -> None:
    """Hold `lines` to the record of that name, or write it where WRITE asks for that."""
    file = RECORDS / f"{name}.jsonl"
    if os.environ.get(WRITE):
        file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    assert differences(recorded, lines) == [], f"{name}: this is registered otherwise than recorded"


@pytest.mark.parametrize("base", WHOLE)
def test_a_base_registers_what_is_recorded(base: str) -> None:
    compare(base, of_base(base))


@pytest.mark.parametrize("stack", sorted({*STACKS} - {*WHOLE}))
def test_a_stack_registers_what_is_recorded(stack: str) -> None:
    compare(stack, differences(of_dev(stack), registered(stack, read(paths.stack_file(stack)))))


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_key_registers_what_is_recorded(name: str, tmp_path: Path) -> None:
    def variables() -> dict[str, str]:
        under_way = {agreed.TRIALS: str(test_sweep.under_way(tmp_path, 1, 3))} if "under way" in name else {}
        return under_way | (BUILT_HERE if "built here" in name else {})

    lines = registered(stack_of(name), sections_of(name), variables)
    compare(name, differences(of_base(CHANGED[name][0]), lines))


def test_each_record_has_a_test() -> None:
    assert sorted(each.stem for each in RECORDS.iterdir()) == sorted({*STACKS, *WHOLE, *CHANGED})


def test_no_input_and_no_output_names_the_clone() -> None:
    """A stack of a shared cluster is applied from any clone without a difference."""
    assert [each.name for each in RECORDS.iterdir() if "ROOT" in each.read_text()] == []
