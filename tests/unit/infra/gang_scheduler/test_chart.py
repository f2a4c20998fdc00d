"""The little of Helm that the chart of scheduler-plugins uses."""

from __future__ import annotations

import pytest

from infra.gang_scheduler import chart

VALUES = {"name": "gangs", "command": ["/bin/x", "--y"], "empty": {}, "off": False, "plugins": ["One", "Two"]}


def only(template: str) -> dict[str, object]:
    (found,) = chart.objects(template, VALUES, "kubeflow")
    return found


def test_values_and_the_namespace_are_filled_in() -> None:
    template = "\n".join(
        [
            "kind: X",
            "name: {{ .Values.name }}",
            "place: {{ .Release.Namespace }}",
            "command: {{- toYaml .Values.command | nindent 8 }}",
        ]
    )
    assert only(template) == {
        "kind": "X",
        "name": "gangs",
        "place": "kubeflow",
        "command": ["/bin/x", "--y"],
    }


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("with .Values.empty", False),
        ("if .Values.off", False),
        ("if .Values.name", True),
        ('if has "Two" .Values.plugins', True),
        ('if has "Three" .Values.plugins', False),
    ],
)
def test_a_block_is_there_where_its_condition_holds(condition: str, shown: bool) -> None:
    assert only(f"kind: X\n{{{{- {condition} }}}}\ninside: 1\n{{{{- end }}}}\nafter: 2") == {
        "kind": "X",
        **({"inside": 1} if shown else {}),
        "after": 2,
    }


def test_comments_and_keys_without_a_value_are_left_out() -> None:
    assert only("kind: X\n{{- /* of helm */}}\nargs:\n") == {"kind": "X"}


def test_a_file_has_several_objects() -> None:
    assert [each["kind"] for each in chart.objects("kind: X\n---\nkind: Y\n---\n", VALUES, "kubeflow")] == [
        "X",
        "Y",
    ]


@pytest.mark.parametrize(
    "expression", ['include "name" .', ".Chart.Name", ".Values.absent", "range .Values.plugins", "."]
)
def test_what_is_not_known_is_an_error(expression: str) -> None:
    with pytest.raises(chart.ChartError):
        chart.objects(f"kind: {{{{ {expression} }}}}", VALUES, "kubeflow")
