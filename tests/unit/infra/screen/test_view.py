"""The live view's state and its rows: events in, text out."""

from __future__ import annotations

import pytest

from infra.screen.rows import MOST_OBJECTS, MOST_PODS, clock, rows
from infra.screen.view import Event, View

EVENTS: list[Event] = [
    {"is": "began", "phase": "pulumi up", "usual": 54.0},
    {"is": "noted", "phase": "pulumi up", "text": "Run j"},
    {"is": "object", "urn": "a", "name": "Namespace kubeflow", "operation": "create", "now": "runs"},
    {"is": "object", "urn": "a", "name": "Namespace kubeflow", "operation": "create", "now": "done"},
    {"is": "object", "urn": "b", "name": "Deployment operator", "operation": "create", "now": "runs"},
    {"is": "object", "urn": "b", "text": "0/1 Pods available"},
    {"is": "condition", "job": "j", "text": "Running"},
    {"is": "pods", "job": "j", "pods": [["j-master-0", "Running"], ["j-worker-0", "Pending (ErrImagePull)"]]},
    {"is": "epochs", "job": "j", "epochs": 2},
    {"is": "step", "job": "j", "epoch": 1, "done": 0, "total": 1000, "loss": "2.3"},
    {"is": "step", "job": "j", "epoch": 1, "done": 500, "total": 1000, "loss": "1.3"},
    {"is": "result", "job": "j", "epoch": 1, "accuracy": "0.9", "loss": "0.3"},
    {"is": "step", "job": "j", "epoch": 2, "done": 250, "total": 1000, "loss": "0.3"},
    {"is": "of a later release", "x": 1},
]


def view(events: list[Event]) -> View:
    """A view that got an event a second."""
    made = View()
    for at, event in enumerate(events):
        made.apply(event, float(at))
    return made


def text(made: View, now: float, width: int = 100, height: int = 50) -> list[str]:
    return [row.plain for row in rows(made, now, width, height)]


def test_all_that_is_under_way_is_on_the_screen() -> None:
    assert text(view(EVENTS), 12.0) == [
        " ⠦ pulumi up  0:12 of about 0:54  Run j",
        "     objects: 1 done, 1 under way",
        "     Deployment operator  0:08  0/1 Pods available",
        "   j  Running",
        "     j-master-0  Running",
        "     j-worker-0  Pending (ErrImagePull)",
        "     epoch 2/2 ━━━━━━──────────────────  25%  462 images/s  0:02 left",
        "     loss 0.3  epoch 1: accuracy 0.9  loss 0.3",
    ]


def test_the_loss_is_there_before_the_first_epoch_ends() -> None:
    """A run of one epoch has no other number until its end."""
    assert text(view(EVENTS[:11]), 12.0)[-1] == "     loss 1.3"


REPORT: Event = {"is": "progress", "job": "j", "percentage": 45, "text": "45 % done, 0:01:12 left"}


def test_what_a_job_reports_is_drawn_where_its_log_tells_nothing() -> None:
    running, step = EVENTS[6], EVENTS[9]
    assert text(view([running, REPORT]), 5.0) == [
        "   j  Running",
        "     ━━━━━━━━━━━───────────── 45 % done, 0:01:12 left",
    ]
    assert "45 %" not in "".join(text(view([running, REPORT, step]), 5.0))
    assert text(view([REPORT, {**running, "text": "Succeeded"}]), 5.0) == ["   j  Succeeded"]


@pytest.mark.parametrize("count", range(len(EVENTS) + 1))
@pytest.mark.parametrize("height", [1, 2, 5, 24])
@pytest.mark.parametrize("width", [1, 2, 20, 79, 300])
def test_no_row_reaches_the_edge_after_any_event(count: int, width: int, height: int) -> None:
    drawn = rows(view(EVENTS[:count]), 99.0, width, height)
    assert all(row.cell_len <= max(width - 1, 1) for row in drawn)
    assert len(drawn) < height


@pytest.mark.parametrize("width", range(60, 101, 5))
def test_a_narrow_terminal_keeps_every_number_of_the_bar(width: int) -> None:
    """Of a long run on a fast machine: the widest that its numbers get."""
    many: list[Event] = [
        {"is": "condition", "job": "j", "text": "Running"},
        {"is": "epochs", "job": "j", "epochs": 100},
        {"is": "result", "job": "j", "epoch": 98, "accuracy": "0.9921", "loss": "0.0254"},
        {"is": "step", "job": "j", "epoch": 99, "done": 0, "total": 600_000, "loss": "0.0123"},
        {"is": "step", "job": "j", "epoch": 99, "done": 99_999, "total": 600_000, "loss": "0.0123"},
    ]
    bar, losses = text(view(many), 5.0, width)[-2:]
    assert losses == "     loss 0.0123  epoch 98: accuracy 0.9921  loss 0.0254"
    assert bar.endswith("  17%  99,999 images/s  0:11 left")
    assert 6 <= bar.count("━") + bar.count("─") <= 24


def test_what_has_ended_leaves_the_screen() -> None:
    assert text(view([*EVENTS, {"is": "quiet"}, {"is": "ended", "phase": "pulumi up"}]), 20.0) == []


@pytest.mark.parametrize("condition", ["Succeeded", "Failed (BackoffLimitExceeded)", "Suspended"])
@pytest.mark.parametrize("late", [[], EVENTS[10:12]], ids=["", "and its last lines come later"])
def test_the_bar_goes_with_the_job(condition: str, late: list[Event]) -> None:
    """The last step that a trainer tells is not the last one: the bar would stand there for good."""
    ended: Event = {"is": "condition", "job": "j", "text": condition}
    shown = text(view([*EVENTS, ended, *late]), 20.0)
    assert f"   j  {condition}" in shown
    assert not any("━" in row or "epoch" in row for row in shown)
    assert "     accuracy 0.9  loss 0.3" in shown


def test_the_bar_is_full_at_the_end_of_an_epoch() -> None:
    shown = "\n".join(text(view(EVENTS[8:12]), 5.0))
    assert f"epoch 1/2 {'━' * 24} 100%" in shown
    assert "0:02 left" in shown, "the second epoch"


def test_a_job_that_goes_on_has_its_bar_again() -> None:
    conditions: list[Event] = [
        {"is": "condition", "job": "j", "text": each} for each in ("Suspended", "Running")
    ]
    assert any("epoch 2/2" in row for row in text(view([*EVENTS, *conditions]), 20.0))


def test_of_many_only_some_are_drawn() -> None:
    objects: list[Event] = [
        {"is": "object", "urn": str(n), "name": f"Pod {n}", "operation": "create", "now": "runs"}
        for n in range(50)
    ]
    pods: Event = {"is": "pods", "job": "j", "pods": [[f"j-{n}", "Running"] for n in range(50)]}
    assert len(text(view(objects), 60.0)) == 1 + MOST_OBJECTS
    assert len(text(view([pods]), 60.0)) == 1 + MOST_PODS + 1


def jobs(count: int, ended: int = 0, pods: int = 4) -> View:
    """A sweep: so many jobs, the first ones at their end, all others in the middle of an epoch."""
    made = View()
    for number in range(count):
        name = f"j{number}"
        told: list[Event] = [
            {"is": "condition", "job": name, "text": "Running"},
            {"is": "pods", "job": name, "pods": [[f"{name}-{pod}", "Running"] for pod in range(pods)]},
            {"is": "step", "job": name, "epoch": 1, "done": 500, "total": 1000, "loss": "1.3"},
        ]
        end: list[Event] = [{"is": "condition", "job": name, "text": "Succeeded"}] if number < ended else []
        for event in [*told, *end]:
            made.apply(event, 0.0)
    return made


@pytest.mark.parametrize("ended", [0, 3, 60])
@pytest.mark.parametrize("count", [1, 3, 5, 8, 60])
def test_every_job_is_drawn_or_counted(count: int, ended: int) -> None:
    """On the usual 80 by 24: a job that is under way has its bar before another's pods have a row."""
    ended = min(ended, count)
    shown = text(jobs(count, ended), 1.0, 80, 24)
    assert len(shown) < 24
    drawn = sum(row.endswith(("  Running", "  Succeeded")) and not row.startswith("     ") for row in shown)
    (counted,) = [int(row.split()[1]) for row in shown if row.startswith("   and ")] or [0]
    assert drawn + counted == count
    bars = sum("epoch 1" in row for row in shown)
    assert bars == min(count - ended, 7)
    assert any("-3  Running" in row for row in shown) is (count <= 3), "pods, where there is room"


def test_a_run_that_goes_on_elsewhere_has_no_negative_pace() -> None:
    made = view([EVENTS[10], EVENTS[9], EVENTS[9]])
    assert made.jobs["j"].pace is None
    assert "images/s" not in "".join(text(made, 3.0))


def test_without_a_number_of_epochs_it_is_the_epoch_that_is_left() -> None:
    assert "0:01 left in this epoch" in "\n".join(text(view(EVENTS[9:11]), 3.0))


@pytest.mark.parametrize(("seconds", "told"), [(0, "0:00"), (61, "1:01"), (3725, "1:02:05"), (-1, "0:00")])
def test_a_clock(seconds: float, told: str) -> None:
    assert clock(seconds) == told
