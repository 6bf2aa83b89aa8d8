"""What the command line says when it cannot go on: one text, exit code 2."""

from __future__ import annotations


class Problem(Exception):
    """Bad usage or bad input. The text is what the user reads; ``details`` (rendered diagnostics) stand before it."""

    def __init__(self, text: str, details: str = "") -> None:
        super().__init__(text)
        self.details = details


def counted(number: int, one: str, many: str = "") -> str:
    """``1 policy``, ``2 policies``: a number with its word."""
    return f"{number} {one if number == 1 else many or one + 's'}"
