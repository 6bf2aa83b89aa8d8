"""One exception for every text that does not parse, whatever its grammar; front ends turn it into a diagnostic."""

from __future__ import annotations


class SyntaxProblem(Exception):
    """A text that does not parse.

    ``start`` and ``end`` are character offsets into it (half open; ``start == end`` at the end of the text).
    ``code`` is ``character`` (no token starts here), ``token`` (a token out of place), ``end`` (the text stops too
    early), ``literal`` (a literal that is none), ``depth`` or ``length`` (beyond a limit), ``name``, ``arity`` or
    ``type`` (a call that cannot work). ``expected`` are the things that may stand there, in words; ``hint`` says
    how to mend it, or is empty.
    """

    def __init__(
        self,
        code: str,
        message: str,
        start: int,
        end: int,
        expected: tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end
        self.expected = expected
        self.hint = hint

    def moved(self, by: int) -> SyntaxProblem:
        """The same problem in a longer text that the parsed one starts ``by`` characters into."""
        return SyntaxProblem(self.code, self.message, self.start + by, self.end + by, self.expected, self.hint)
