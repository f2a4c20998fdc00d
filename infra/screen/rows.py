"""The live view as rows of text that fit the terminal's width and height."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from infra.screen.view import Job, Running, View

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_S = 8
BAR, SHORTEST_BAR = 24, 6
MOST_OBJECTS = 4
MOST_PODS, FEW_PODS = 8, 2
GOOD, BAD = ("Running", "Succeeded"), ("Failed", "Unknown", "Backoff", "BackOff", "Err")


def rows(view: View, now: float, width: int, height: int) -> list[Text]:
    """The rows at `now`, in seconds since 1970, for a terminal of `width` columns and `height` rows.

    If there are too many rows, pods are dropped first, then ended jobs, then the last of the other jobs.
    """
    room = max(height - 1, 0)
    found = [*_phases(view, now), *_objects(view, now)]
    found = [*found, *_jobs(view.jobs, room - len(found), width)][:room]
    for row in found:
        row.no_wrap = True
        row.truncate(max(width - 1, 1), overflow="ellipsis")
    return found


def _jobs(jobs: Mapping[str, Job], room: int, width: int) -> list[Text]:
    """The rows of the jobs, if possible at most `room` rows; the last row counts the jobs without rows."""
    under_way = {name: job for name, job in jobs.items() if not job.has_ended}
    for shown, pods in (
        *((jobs, most) for most in (MOST_PODS, FEW_PODS, 0)),
        *((under_way, most) for most in (FEW_PODS, 0)),
    ):
        found = [row for name, job in shown.items() for row in _job(name, job, pods, width)]
        found += _more(len(jobs) - len(shown), "that have ended")
        if len(found) <= room:
            return found
    found = []
    for drawn, (name, job) in enumerate(under_way.items()):
        block = [*_job(name, job, 0, width)]
        if len(found) + len(block) >= room:
            return [*found, *_more(len(jobs) - drawn, "more")]
        found += block
    return found


def _more(number: int, said: str) -> list[Text]:
    return [Text(f"   and {number} {said}", style="dim")] if number else []


def clock(seconds: float) -> str:
    """A time of `seconds` as `0:07` or `1:02:03`."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _phases(view: View, now: float) -> Iterator[Text]:
    mark = SPINNER[int(now * FRAMES_S) % len(SPINNER)]
    for phase in view.phases.values():
        row = Text(f" {mark} ", style="cyan").append(phase.name, style="bold")
        row.append(f"  {clock(now - phase.since)}", style="default")
        if phase.usual:
            row.append(f" of about {clock(phase.usual)}", style="dim")
        yield row.append(f"  {phase.text}", style="default") if phase.text else row


def _objects(view: View, now: float) -> Iterator[Text]:
    lasting = sorted(view.objects.values(), key=lambda each: each.since)
    if lasting or view.made:
        yield Text(f"     objects: {view.made} done, {len(lasting)} under way", style="dim")
    for each in lasting[:MOST_OBJECTS]:
        yield _object(each, now)


def _object(each: Running, now: float) -> Text:
    row = Text(f"     {each.name}  {clock(now - each.since)}")
    return row.append(f"  {each.text}", style="dim") if each.text else row


def _job(name: str, job: Job, most_pods: int, width: int) -> Iterator[Text]:
    yield Text("   ").append(name, style="bold").append(f"  {job.condition}", style=_colour(job.condition))
    for pod, state in job.pods[:most_pods]:
        yield Text(f"     {pod}  ").append(state, style=_colour(state))
    if len(job.pods) > most_pods > 0:
        yield Text(f"     and {len(job.pods) - most_pods} more pods", style="dim")
    if job.is_training:
        yield _bar(job, width)
    elif job.shows_report:
        yield _drawn("     ", job.percentage / 100, f" {job.report}", width)
    if job.is_training or job.accuracy:
        yield _result(job)


def _bar(job: Job, width: int) -> Text:
    """The progress of the epoch."""
    part = min(job.done / job.total, 1.0)
    before = f"     epoch {job.epoch}{f'/{job.epochs}' if job.epochs else ''} "
    after = f" {part:4.0%}"
    if job.pace:
        after += f"  {job.pace:,.0f} images/s"
    if (left := job.left_s()) is not None:
        after += f"  {clock(left)} left{'' if job.epochs else ' in this epoch'}"
    return _drawn(before, part, after, width)


def _drawn(before: str, part: float, after: str, width: int) -> Text:
    """A bar between two texts. A narrow terminal gets a short bar, because the numbers are more important."""
    bar = min(max(width - 1 - len(before) - len(after), SHORTEST_BAR), BAR)
    full = round(part * bar)
    row = Text(before).append("━" * full, style="green").append("─" * (bar - full), style="dim")
    return row.append(after, style="default")


def _result(job: Job) -> Text:
    """The loss of the last step while the job trains, and the result on the test images after the last epoch."""
    row = Text("     ")
    if job.is_training:
        row.append(f"loss {job.step_loss}")
    if job.accuracy:
        row.append(f"  epoch {job.tested}: " if job.is_training else "")
        row.append(f"accuracy {job.accuracy}  loss {job.loss}", style="green")
    return row


def _colour(state: str) -> str:
    if any(word in state for word in BAD):
        return "red"
    return "green" if state.startswith(GOOD) else "yellow"
