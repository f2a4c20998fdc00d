"""README's first change, as text; `tests/e2e/test_digits.py` replays it on a cluster."""

from __future__ import annotations

from tests.runbooks.readme import first_change


def test_the_first_change_takes_five_commands() -> None:
    commands = first_change()
    assert len(commands) == 5
    assert [command.text.split()[0] for command in commands] == ["git", "sed", "make", "pulumi", "git"]


def test_the_review_and_the_preview_are_shown() -> None:
    _, _, review, preview, commit = first_change()
    for command in (review, preview, commit):
        assert command.expected, f"`{command.text}` shows what it prints"
