"""Finds out what a person meant by a text that is no CEL, and says how to write it; called by the parser."""

from __future__ import annotations

import re
from typing import Final

from compiler.frontends.cel.ast import Span
from grammar.errors import SyntaxProblem

NAMES: Final = {
    "NAME": "a name",
    "QUOTED": "a name",
    "STRING": "a value",
    "BYTES": "a value",
    "INT": "a value",
    "UINT": "a value",
    "FLOAT": "a value",
    "TRUE": "a value",
    "FALSE": "a value",
    "NULL": "a value",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "LESS": "an operator",
    "LESS_EQUAL": "an operator",
    "MORE": "an operator",
    "MORE_EQUAL": "an operator",
    "EQUAL": "an operator",
    "NOT_EQUAL": "an operator",
    "IN": "an operator",
    "OR": "an operator",
    "AND": "an operator",
    "PLUS": "an operator",
    "STAR": "an operator",
    "SLASH": "an operator",
    "PERCENT": "an operator",
    "$END": "the end",
}
"""The grammar's terminals in words: those that say most, since more than a handful are not shown."""

_WORDS: Final = {
    "and": "CEL writes 'and' as '&&'",
    "or": "CEL writes 'or' as '||'",
    "not": "CEL writes 'not' as '!': !(x in list)",
    "is": "CEL compares with '=='",
    "if": "CEL has no 'if': condition ? value : other",
    "then": "CEL has no 'if': condition ? value : other",
    "else": "CEL has no 'else': condition ? value : other",
    "for": "CEL has no 'for': list.all(x, …), list.exists(x, …), list.map(x, …)",
    "let": "CEL has no 'let': a variable of the policy, or cel.bind(name, value, expression)",
    "contains": "a function of a text is called behind a dot: text.contains('part')",
    "matches": "a function of a text is called behind a dot: text.matches('^a+$')",
}
_QUANTITY: Final = re.compile(r"[0-9.]+(?:[KMGTPE]i|[kMGTPEmun])\b")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAST_WORD: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t\r\n\f]*$")
_LAST_OPERATOR: Final = re.compile(r"(&&|\|\||[=!<>]=|[-+*/%<>!?:,.]|(?<![A-Za-z0-9_])in)[ \t\r\n\f]*$")
_BRACKET_ENDS: Final = {"(": ")", "[": "]", "{": "}"}
_TAIL: Final = 80
"""How far before a problem its cause is looked for: patterns that end at the problem try every place before it."""

_SHOWN: Final = 40
"""How much of a token out of place a message shows."""

PIECES: Final = re.compile(
    r"""//[^\n]*"""
    r"""|[rR](?:\"\"\"[\s\S]*?(?:\"\"\"|\Z)|\'\'\'[\s\S]*?(?:\'\'\'|\Z)|\"[^\"\n\r]*\"?|'[^'\n\r]*'?)"""
    r"""|\"\"\"(?:[^\\]|\\[\s\S])*?(?:\"\"\"|\\?\Z)|\'\'\'(?:[^\\]|\\[\s\S])*?(?:\'\'\'|\\?\Z)"""
    r"""|\"(?:[^\"\\\n\r]|\\.)*\"?|'(?:[^'\\\n\r]|\\.)*'?|[()\[\]{}]"""
)
"""Brackets, and what hides them: comments and strings, closed or not (a string that has to be closed would be tried
again at each of its quotes)."""


def explained(problem: SyntaxProblem, text: str) -> SyntaxProblem:
    """The problem of the grammar with a hint, where it looks like a usual mistake."""
    if problem.code not in ("character", "token", "end"):
        return problem
    at = problem.start
    if text[at : at + 1] in ("'", '"') and problem.code == "character":
        return _quote(problem, text)
    hint = _hint(problem, text)
    expected = problem.expected
    if problem.code == "end" and not text.strip():
        return SyntaxProblem("end", "empty", at, at, ("an expression",), "write 'true' for a check that always passes")
    message = problem.message
    if problem.end - at > _SHOWN:
        message = f"unexpected {text[at : at + _SHOWN]!r}…"
    return SyntaxProblem(problem.code, message, at, problem.end, expected, hint)


def _hint(problem: SyntaxProblem, text: str) -> str:
    at = problem.start
    before, here = text[max(0, at - _TAIL) : at], text[at : at + _TAIL]
    if "{{" in before + here[:2]:
        return "CEL reads no '{{ }}': name the value itself, as in object.metadata.name"
    if problem.code == "end":
        return _end_hint(text)
    if here.startswith("="):
        if before.endswith(("==", "!=")):
            return f"write '{before[-2:]}': CEL has no operator of three characters"
        if here.startswith("=~"):
            return "write text.matches('pattern')"
        return "write '==' to compare: CEL has no assignment"
    if here.startswith(("&", "|")):
        return f"write '{here[0] * 2}': CEL has no single '{here[0]}'"
    if here[0] in "“”‘’„«»":
        return "write a plain quote: \" or '"
    if here[0] == ";":
        return "an expression ends without ';'"
    if here.startswith("*") and before.rstrip().endswith("["):
        return "CEL has no '[*]': list.all(x, …), list.exists(x, …), list.map(x, …)"
    if here.startswith("**"):
        return "CEL has no power operator"
    word = _WORD.match(here)
    if word is not None:
        return _word_hint(word[0], before, text, at)
    if here[0] in ")]}":
        return _operand_hint(before) or _bracket_hint(text[:at], here[0])
    return _operand_hint(before)


def _word_hint(word: str, before: str, text: str, at: int) -> str:
    if word in _WORDS:
        return _WORDS[word]
    previous = _LAST_WORD.search(before)
    if previous is not None and previous[1] in _WORDS:
        return _WORDS[previous[1]]
    if before.endswith(("'", '"')):
        return f"a quote inside a string is written \\{before[-1]}"
    if before[-1:].isdigit():
        start = re.search(r"[0-9.]+$", before)
        if start is not None and _QUANTITY.match(text, start.start()) is not None:
            number = text[start.start() : at + len(word)]
            return f"a quantity is written quantity('{number}')"
        return "a name does not begin with a digit"
    return ""


def _operand_hint(before: str) -> str:
    operator = _LAST_OPERATOR.search(before)
    if operator is None or operator[1] in ",.:?":
        return ""
    return f"a value is missing behind '{operator[1]}'"


def _end_hint(text: str) -> str:
    open_ = _open_brackets(text)
    if hint := _operand_hint(text[-_TAIL:]):
        return hint
    if re.search(r"[A-Za-z0-9_)\]]\?\.[A-Za-z_]", text):
        return "an optional field is written a.?b"
    if open_:
        return f"'{open_[-1]}' is never closed: '{_BRACKET_ENDS[open_[-1]]}' is missing"
    if "?" in text:
        return "a condition has two values: condition ? value : other"
    return ""


def _bracket_hint(before: str, bracket: str) -> str:
    open_ = _open_brackets(before)
    if not open_:
        return f"'{bracket}' closes nothing"
    if _BRACKET_ENDS[open_[-1]] != bracket:
        return f"'{open_[-1]}' is still open: '{_BRACKET_ENDS[open_[-1]]}' is missing"
    return ""


def _open_brackets(text: str) -> list[str]:
    open_: list[str] = []
    for m in PIECES.finditer(text):
        if m[0] in _BRACKET_ENDS:
            open_.append(m[0])
        elif m[0] in ")]}" and open_:
            open_.pop()
    return open_


def _quote(problem: SyntaxProblem, text: str) -> SyntaxProblem:
    """A quote where no token starts: a string that never ends, or one right behind another."""
    at = problem.start
    triple = text[at : at + 3] in ('"""', "'''")
    end = (
        len(text)
        if triple
        else min((i for i in (text.find("\n", at), text.find("\r", at)) if i >= 0), default=len(text))
    )
    closed = text.find(text[at], at + 1, end) >= 0
    if closed and not triple:
        hint = f"a quote inside a string is written \\{text[at]}"
        return SyntaxProblem("token", f"unexpected {text[at]!r}", at, at + 1, problem.expected, hint)
    hint = "" if end == len(text) else "a string over several lines stands between three quotes"
    return SyntaxProblem("literal", "the string is not closed", at, end, hint=hint)


def reserved(word: str, at: Span) -> SyntaxProblem:
    """A reserved word as a variable or function, in cel-go's words."""
    return SyntaxProblem("token", f"reserved identifier: {word}", *at, hint=_WORDS.get(word, ""))


def keyword(word: str, at: Span) -> SyntaxProblem:
    """A word that is no name, as one."""
    return SyntaxProblem(
        "token", f"unexpected {word!r}", *at, ("a name",), f"write ['{word}'] for a field of this name"
    )


def no_message(at: Span) -> SyntaxProblem:
    """A brace behind something that is not the name of a message."""
    return SyntaxProblem(
        "token", "unexpected '{'", *at, ("an operator", "the end"), "only a message has braces: Name{field: value}"
    )
