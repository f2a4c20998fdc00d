"""A terminal as far as the live view uses one: what stands on it after some output."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"\x1b\[(?P<private>\??)(?P<number>\d*)(?:;\d+)*(?P<command>[A-Za-z])|(?P<character>.)", re.DOTALL
)


CURSOR = 25
"""Number of the private mode; the others change nothing that stands there."""


class Screen:
    """Rows of text without an end below; `cursor_shown` and `width` as of now.

    `history` is what tmux moves out of sight instead of erasing it.
    """

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column, self.cursor_shown = width, [""], 0, 0, True
        self.history: list[str] = []

    def write(self, output: str) -> None:
        """Take `output` as a terminal does. An AssertionError for what this one does not know."""
        for token in TOKEN.finditer(output):
            if token["character"]:
                self._character(token["character"])
            else:
                self._command(token["private"] + token["command"], int(token["number"] or 1))

    def narrow(self, width: int) -> None:
        """Make it narrower: a row that is too long goes on in the next."""
        before = self.rows[: self.row]
        split = [[row[at : at + width] for at in range(0, max(len(row), 1), width)] for row in self.rows]
        self.rows = [part for parts in split for part in parts]
        self.row = sum(len(split[number]) for number in range(len(before)))
        self.width = width

    def _character(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row, self.column = self.row + 1, 0
            self.rows += [""] * (self.row + 1 - len(self.rows))
        else:
            assert character >= " ", repr(character)
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _command(self, command: str, number: int) -> None:
        match command:
            case "A":
                self.row = max(self.row - number, 0)
            case "J":
                if (self.row, self.column) == (0, 0):
                    self.history += [row for row in self.rows if row]
                self.rows = [*self.rows[: self.row], self.rows[self.row][: self.column]]
            case "K":
                self.rows[self.row] = self.rows[self.row][: self.column]
            case "?l" | "?h":
                self.cursor_shown = command == "?h" if number == CURSOR else self.cursor_shown
            case _:
                assert command == "m", command
