"""docs/reliability.md: written from the rows and the tries that have been made, never by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median

from tests.faults.table import records
from tests.faults.table.records import Record
from tests.faults.table.rows import ROWS, WORDS, Row, Way, way_of

HEAD = """# Reliability

What is done to a running stack on a real cluster, and what becomes of it. A try is survived when the command ends well,
or its repetition does, without a step by hand: nothing is lost, nothing hangs, and the training comes to the metrics of
an undisturbed one, digit by digit. Seconds count from the fault until everything was as before.

`make reliability` writes this page: it makes the tries that are missing, one after the other, and writes each down in
[reliability.jsonl](reliability.jsonl) as soon as it is made. Interrupted, the same command goes on behind them. One row
anew, after its cause was mended: `make reliability ARGS="--anew ROW"`; the rows' names are in the last column.

A job is a PyTorchJob. Rows that end in `-v2` do the same to a TrainJob, in a stack with `operator: {api: v2}`. There
the master is the replica with index 0, the operator is two controllers, Trainer's and JobSet's, and JobSet starts all
replicas in new pods when one has failed. Rows that end in `-kueue` do it to a PyTorchJob that Kueue has admitted, in a
stack with `operator: {queue: kueue}`: Kueue is away together with the operator there.
"""
COLUMNS = "| fault | tried | survived | seconds to recover | hit | row |"


def place(file: Path) -> Path:
    """The page beside the records in `file`."""
    return file.with_suffix(".md")


def write(file: Path) -> None:
    """Write the page for the records in `file`, where it says something else."""
    text, page = render(records.read(file)), place(file)
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def render(made: list[Record]) -> str:
    """The whole page."""
    parts = [HEAD, f"**{summary(made)}**\n"]
    for section in dict.fromkeys(row.section for row in ROWS.values()):
        rows = {key: row for key, row in ROWS.items() if row.section == section}
        lines = [_line(key, row, [each for each in made if each.row == key]) for key, row in rows.items()]
        parts.append(
            "\n".join([f"## {section}\n", COLUMNS, "| --- | --- | --- | --- | --- | --- |", *lines, ""])
        )
    machines = Counter((each.processor, each.date) for each in made)
    told = [
        f"- {count} tries on {date}: {processor}" for (processor, date), count in sorted(machines.items())
    ]
    parts.append("\n".join(["## Measured on\n", *(told or ["Nothing yet."]), ""]))
    return "\n".join(parts)


def summary(made: list[Record]) -> str:
    """All rows together: the tries, and how many rows of each API are complete."""
    known = [each for each in made if each.row in ROWS]
    survived = sum(each.survived for each in known)
    complete = {way: [not missing(key, ROWS[key], made) for key in ROWS if way_of(key) is way] for way in Way}
    counts = {way: f"{sum(each)} of {len(each)}" for way, each in complete.items()}
    others = [f"{counts[way]} of those for {word}" for way, word in WORDS.items()]
    return (
        f"{len(known)} tries, {survived} survived. Complete are {counts[Way.PYTORCHJOB]} rows, "
        f"{' and '.join(others)}."
    )


def missing(key: str, row: Row, made: list[Record]) -> str:
    """What the row still lacks; empty where it is complete."""
    tries = [each for each in made if each.row == key]
    if not tries:
        return "not measured yet"
    if len(tries) < row.tries:
        return f"{row.tries - len(tries)} tries are missing"
    unhit = [phase for phase in row.phases if phase not in {each.phase for each in tries}]
    return f"not hit: {', '.join(unhit)}" if unhit else ""


def _line(key: str, row: Row, tries: list[Record]) -> str:
    lacks = missing(key, row, tries)
    if not tries:
        return f"| {row.fault} | **not measured yet** | | | | `{key}` |"
    seconds = [each.seconds for each in tries if each.survived and each.seconds is not None]
    took = f"{median(seconds):.0f}, at most {max(seconds):.0f}" if seconds else "never"
    hits = Counter(each.phase for each in tries)
    hit = ", ".join(f"{phase}: {count}" for phase, count in sorted(hits.items()) if phase)
    hit += f" ({lacks})" if lacks else ""
    survived = sum(each.survived for each in tries)
    shown = str(survived) if survived == len(tries) else f"**{survived}**"
    return f"| {row.fault} | {len(tries)} | {shown} | {took} | {hit} | `{key}` |"
