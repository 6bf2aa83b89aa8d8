"""``thesmos jp``: JMESPath as policies have it: run a query, look up a function, show how a query is read."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from runtime.cli.problem import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommands ``query``, ``function`` and ``parse``, with Kyverno's flags."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    query = commands.add_parser("query", help="run queries over a document")
    query.add_argument("queries", nargs="*", metavar="QUERY", help="queries, each on the result of the one before")
    query.add_argument("-i", "--input", metavar="FILE", help="the document, YAML or JSON (default: stdin)")
    query.add_argument("-q", "--query", action="append", default=[], metavar="FILE", help="read queries from files")
    query.add_argument("-c", "--compact", action="store_true", help="print JSON on one line")
    query.add_argument("-u", "--unquoted", action="store_true", help="print a text without quotes")
    function = commands.add_parser("function", help="list functions, or describe some")
    function.add_argument("names", nargs="*", metavar="NAME")
    parse = commands.add_parser("parse", help="show how a query is read")
    parse.add_argument("queries", nargs="*", metavar="QUERY")
    parse.add_argument("-f", "--file", action="append", default=[], metavar="FILE", help="read queries from files")


def run(args: argparse.Namespace) -> int:
    match args.what:
        case "query":
            return _query(args)
        case "function":
            return _functions(args.names)
        case _:
            return _parse(args)


def _query(args: argparse.Namespace) -> int:
    from compiler.dynamic import search
    from vm.values import Err

    queries = [*args.queries, *_from_files(args.query)]
    if not queries:
        raise Problem("no query given")
    value = _document(args.input)
    for query in queries:
        _checked(query)
        value = search(query, value)
        if isinstance(value, Err):
            raise Problem(f"{query}: {value.text}")
    if args.unquoted and type(value) is str:
        print(value)
    else:
        print(json.dumps(value, indent=None if args.compact else 2, ensure_ascii=False, sort_keys=True))
    return 0


def _document(path: str | None) -> Any:
    from runtime.cli.files import STDIN, read_values

    documents = [d for d in read_values(path or STDIN) if d is not None]
    if len(documents) != 1:
        raise Problem(f"{path or 'stdin'}: holds {len(documents)} documents, where one is expected")
    return documents[0]


def _functions(names: list[str]) -> int:
    from compiler.frontends.jmes.functions import FUNCTIONS

    unknown = [name for name in names if name not in FUNCTIONS]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], FUNCTIONS, 1)
        raise Problem(f"there is no function {unknown[0]}" + (f", did you mean {near[0]}" if near else ""))
    for name in names or sorted(FUNCTIONS):
        function = FUNCTIONS[name]
        print(f"{function.signature}\n  {function.doc}")
    return 0


def _parse(args: argparse.Namespace) -> int:
    queries = [*args.queries, *_from_files(args.file)]
    if not queries:
        queries = [sys.stdin.read().strip()]
    for query in queries:
        for line in _tree(_checked(query)):
            print(line)
    return 0


def _checked(query: str) -> Any:
    """The tree of a query. Raises :class:`Problem` with a caret under what is wrong."""
    from compiler.frontends.jmes.check import check
    from compiler.frontends.jmes.parse import parse
    from grammar.errors import SyntaxProblem

    try:
        node = parse(query)
        check(node)
    except SyntaxProblem as problem:
        text = query.replace("\n", " ")
        caret = " " * problem.start + "^" * max(1, problem.end - problem.start)
        expected = f" (expected {', '.join(problem.expected)})" if problem.expected else ""
        raise Problem(f"the query does not parse: {problem}{expected}", f"{text}\n{caret}") from None
    return node


def _tree(node: Any, depth: int = 0) -> list[str]:
    from dataclasses import fields

    from compiler.frontends.jmes.ast import children

    shown = []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "at" or (value is False and field.name != "value"):
            continue  # a mark that is off (``grouped=false``) would only be in the way
        if value is None or isinstance(value, str | int | float):
            shown.append(f"{field.name}={value!r}" if isinstance(value, str) else f"{field.name}={json.dumps(value)}")
    lines = ["  " * depth + " ".join([type(node).__name__, *shown])]
    for child in children(node):
        lines += _tree(child, depth + 1)
    return lines


def _from_files(paths: list[str]) -> list[str]:
    from runtime.cli.files import read_text

    queries = []
    for path in paths:
        text = read_text(Path(path))
        queries += [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return queries
