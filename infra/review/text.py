"""Objects as YAML for a reviewer: one List, without repetitions.

A run's id, an image, and the pod of a PyTorchJob whose replica types have equal pods are written once, with an anchor;
after that, an alias repeats them. Every reader of YAML, also kubectl, sees the same objects.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from infra.job.manifest import run_of
from infra.objects.job_kinds import NAMES, PYTORCHJOB, RUNTIME
from infra.objects.manifest import Manifest

WIDTH = 100
LIST = "List"
OF_RUNS = (*NAMES, RUNTIME)
"""Kinds with the label of their run."""
# Lists with one line for each entry: a reviewer sees which option has changed.
ONE_A_LINE = ("command", "args")
# A CRD has 8,000 lines: libyaml reads it ten times as fast, if PyYAML was built with libyaml.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def text(objects: Sequence[Manifest], image: str) -> str:
    """`objects` as one List with sorted keys. A text of several lines is written as several lines.

    Parameters:
        image: the image that a stack's pods share.
    """
    runs = dict.fromkeys(run_of(each) for each in objects if each["kind"] in OF_RUNS)
    anchors = {image: "image", **{run: _anchor("run", number) for number, run in enumerate(runs, 1)}}
    items = [_with_one_pod(each) if each["kind"] == PYTORCHJOB.kind else each for each in objects]
    return _dumped(_ListDumper, {"apiVersion": "v1", "kind": LIST, "items": items}, anchors)


def document(value: Mapping[str, Any]) -> str:
    """One object as YAML, outside a List."""
    return _dumped(_Dumper, value, {})


def objects_in(content: str) -> list[Manifest]:
    """The objects of a file: the objects of a List, or its only object."""
    found = yaml.load(content, LOADER)
    return list(found["items"] if found["kind"] == LIST else [found])


def nodes(content: str) -> list[yaml.Node]:
    """The objects of a file as YAML nodes.

    An alias gives the same node as the part that it repeats, so a caller can find repeated parts.
    """
    top: Any = yaml.compose(content, LOADER)
    fields = {key.value: value for key, value in top.value}
    return list(fields["items"].value if fields["kind"].value == LIST else [top])


def _anchor(word: str, number: int) -> str:
    """`word`, with `number` at its end if that is at least 2: some readers of YAML refuse two anchors of one name."""
    return f"{word}-{number}" if number > 1 else word


def _with_one_pod(job: Manifest) -> Manifest:
    """`job`, in which replica types with equal pods share one pod object."""
    replicas = job["spec"]["pytorchReplicaSpecs"]
    first, *others = replicas.values()
    pod = first["template"]["spec"]
    if any(each["template"]["spec"] != pod for each in others):
        return job
    same = {name: {**each, "template": {**each["template"], "spec": pod}} for name, each in replicas.items()}
    return {**job, "spec": {**job["spec"], "pytorchReplicaSpecs": same}}


class _Dumper(yaml.SafeDumper):
    """`anchors`: text -> its anchor. Only these texts and pods get anchors."""

    def __init__(self, stream: io.StringIO, anchors: Mapping[str, str]) -> None:
        super().__init__(stream, sort_keys=True, width=WIDTH, allow_unicode=True, default_flow_style=False)
        self.anchors_of, self.written, self.pods = anchors, dict[str, yaml.ScalarNode](), 0

    def ignore_aliases(self, data: object) -> bool:
        return not (isinstance(data, dict) and "containers" in data)

    def generate_anchor(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode):
            return self.anchors_of[node.value]
        self.pods += 1
        return _anchor("pod", self.pods)


class _ListDumper(_Dumper):
    """Writes a list of words on one line, as in `verbs: [get, list]`."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, value in node.value:
            if isinstance(value, yaml.SequenceNode) and key.value not in ONE_A_LINE:
                value.flow_style = all(_is_word(entry) for entry in value.value)
        return node


def _is_word(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style != "|"


def _dumped(dumper: type[_Dumper], value: Any, anchors: Mapping[str, str]) -> str:
    stream = io.StringIO()
    writing = dumper(stream, anchors)
    writing.open()
    writing.represent(value)
    writing.close()
    return stream.getvalue()


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """A text with an anchor always gives the same node, so that repetitions become aliases."""
    if text in dumper.written:
        return dumper.written[text]
    node = dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
    if text in dumper.anchors_of:
        dumper.written[text] = node
    return node


_Dumper.add_representer(str, _represent_text)
