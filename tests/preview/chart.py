"""What scheduler-plugins' chart yields. It uses little of Helm: values, and blocks that are left out.

Anything else in a template is an error, so that a later release of the chart is never read wrongly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from infra.gang_scheduler.patches import RELEASE
from infra.objects.manifest import Manifest

# Its controller reconciles both kinds, and ends where one is missing.
CRDS = ("coscheduling/crd.yaml", "capacityscheduling/crd.yaml")
PROFILE = "coscheduling/scheduler-config.yaml"
CHART = "install/charts/as-a-second-scheduler"
TEMPLATES = ("serviceaccount.yaml", "rbac.yaml", "deployment.yaml")

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_BLOCK = re.compile(r"^(?:if|with)\s+(.*)$")
_HAS = re.compile(r'^has "([^"]+)" (\S+)$')
_AS_YAML = re.compile(r"^toYaml (\S+) \| nindent \d+$")
_VALUES, _NAMESPACE = ".Values.", ".Release.Namespace"


class ChartError(ValueError):
    """The template has something that is not known here."""


def texts(manifests: Path) -> list[str]:
    """The definitions' files in upstream's folder, and each object of the chart with its own values."""
    values = yaml.safe_load((manifests / CHART / "values.yaml").read_text())
    templates = ((manifests / CHART / "templates" / name).read_text() for name in TEMPLATES)
    made = [each for text in templates for each in objects(text, values, RELEASE)]
    return [
        *((manifests / name).read_text() for name in CRDS),
        yaml.safe_dump_all(made, sort_keys=False),
    ]


def objects(template: str, values: Mapping[str, Any], namespace: str) -> list[Manifest]:
    """The objects of one file of templates. Raises ChartError.

    Parameters:
        values: those of the chart's values.yaml.
        namespace: the release's.
    """
    text = "\n".join(_lines(template, values, namespace))
    return [_without_empty(each) for each in yaml.safe_load_all(text) if each]


def _lines(template: str, values: Mapping[str, Any], namespace: str) -> Iterator[str]:
    shown: list[bool] = []
    for line in template.splitlines():
        found = [action for action in _ACTION.findall(line) if not action.startswith("/*")]
        block = _BLOCK.match(found[0]) if found else None
        if block:
            shown.append(_holds(block[1], values))
        elif found == ["end"]:
            shown.pop()
        elif all(shown) and (found or not _ACTION.search(line)):
            yield _ACTION.sub(lambda action: _text(action[1], values, namespace), line)


def _holds(condition: str, values: Mapping[str, Any]) -> bool:
    if has := _HAS.match(condition):
        return has[1] in _value(has[2], values)
    return bool(_value(condition, values))


def _text(expression: str, values: Mapping[str, Any], namespace: str) -> str:
    if expression == _NAMESPACE:
        return namespace
    if as_yaml := _AS_YAML.match(expression):
        return f" {json.dumps(_value(as_yaml[1], values))}"
    return str(_value(expression, values))


def _value(path: str, values: Mapping[str, Any]) -> Any:
    if not path.startswith(_VALUES):
        raise ChartError(f"the chart has {{{{ {path} }}}}, which is not known here")
    try:
        return reduce(lambda found, key: found[key], path.removeprefix(_VALUES).split("."), values)
    except KeyError as error:
        raise ChartError(f"the chart's values have no {path}: {error}") from None


def _without_empty(value: Any) -> Any:
    """`value` without keys that say nothing."""
    if isinstance(value, dict):
        return {key: _without_empty(each) for key, each in value.items() if each is not None}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
