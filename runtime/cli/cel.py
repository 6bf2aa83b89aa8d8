"""``thesmos cel``: runs a CEL expression as policies do, and shows its type, its code and what it costs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from compiler.frontends.cel import checked
    from compiler.frontends.cel.types import Type
    from compiler.schema.kinds import Schemas


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``cel``."""
    parser.epilog = (
        "The fields of an object have the types of its kind, as in policies. Exit code 0 when there is a value, 2 when "
        "the expression is refused or errs."
    )
    parser.add_argument("expression", metavar="EXPR", help="the expression; - reads it from stdin")
    parser.add_argument("-i", "--input", metavar="FILE", help="a document, YAML or JSON, to be the variable object")
    parser.add_argument("-v", "--variables", metavar="FILE", help="a map of further variables, YAML or JSON")
    parser.add_argument("--plain", action="store_true", help="CEL with its own extensions, without Kubernetes'")
    parser.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    add_crd_flag(parser)
    parser.add_argument("--unchecked", action="store_true", help="run without the type checker")
    parser.add_argument("--type", action="store_true", help="print the type of the expression instead")
    parser.add_argument(
        "--cost",
        action="store_true",
        help="print what the run cost and was estimated to, in the API server's units, too",
    )
    parser.add_argument("--tier", choices=("1", "2"), default="1", help="the tier of the VM")


def run(args: argparse.Namespace) -> int:
    from compiler.frontends.cel.check import check
    from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES, PLAIN_LIBRARIES
    from compiler.frontends.cel.env import Env
    from compiler.frontends.cel.program import CelProgram, compile_program
    from compiler.frontends.cel.types import format_type
    from compiler.frontends.cel.unchecked import unchecked
    from compiler.schema.kinds import provider
    from vm.host import Meter
    from vm.values import Err

    text = sys.stdin.read() if args.expression == "-" else args.expression
    variables = _variables(args)
    schemas = provider(read_crds(args.crds))
    if args.plain:
        env = Env(_types(variables, None), PLAIN_LIBRARIES, strict=True)
    else:
        types = _types(variables, schemas)
        env = Env(types, KUBERNETES_LIBRARIES, provider=schemas, strict=args.cel_strict, kubernetes=True)
    program = compile_program(text, env, tier=args.tier, checker=unchecked if args.unchecked else check)
    if not isinstance(program, CelProgram):
        first = program[0]
        raise Problem(_said(first), _caret(text, first.at))
    for remark in program.checked.problems:
        print(f"{_caret(text, remark.at)}\n{remark.level}: {_said(remark)}", file=sys.stderr)
    if args.type:
        print(format_type(program.checked.type))
        return 0
    meter = Meter(10_000_000)
    value = program.run(variables, meter=meter)
    if args.cost:
        print(f"cost: {meter.spent} ({_estimated(program.checked, schemas)})", file=sys.stderr)
    if isinstance(value, Err):
        raise Problem(value.text)
    print(_shown(value))
    return 0


def _said(problem: checked.Problem) -> str:
    return problem.message + (f", {problem.help}" if problem.help else "")


def _types(variables: dict[str, Any], schemas: Schemas | None) -> dict[str, Type]:
    """``object`` is of its kind where a schema knows that, everything else may be anything."""
    from compiler.frontends.cel.types import DYN, Soft
    from runtime.cli.files import identity
    from runtime.request import split_api_version

    types: dict[str, Type] = dict.fromkeys(variables, DYN)
    if schemas is not None and isinstance(variables.get("object"), dict):
        api_version, kind, _, _ = identity(variables["object"])
        known = schemas.kind(*split_api_version(api_version), kind)
        if known is not None:
            types["object"] = Soft(known)
    return types


def _estimated(found: checked.Checked, schemas: Schemas) -> str:
    """What the expression may cost, as policies are judged."""
    from compiler.frontends.cel.estimate import estimate
    from compiler.frontends.cel.sizes import Bounds

    cost = estimate(found, Bounds(schemas))
    return f"estimated {cost.low} to {cost.high}" if cost.low < cost.high else f"estimated {cost.low}"


def _variables(args: argparse.Namespace) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    if args.variables:
        found = _document(args.variables)
        if not isinstance(found, dict):
            raise Problem(f"{args.variables}: holds no map of variables")
        variables.update(found)
    if args.input:
        variables["object"] = _document(args.input)
    return variables


def _document(path: str) -> Any:
    from runtime.cli.files import read_values

    documents = [d for d in read_values(path) if d is not None]
    if len(documents) != 1:
        raise Problem(f"{path}: holds {len(documents)} documents, where one is expected")
    return documents[0]


def _caret(text: str, at: tuple[int, int]) -> str:
    start, end = at
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    return f"{line}\n{' ' * (start - line_start)}{'^' * max(1, min(end, line_start + len(line)) - start)}"


def _shown(value: Any) -> str:
    """The value as JSON where it has a JSON form, else as CEL writes it."""
    from vm.cel.display import display
    from vm.cel.k8s_quantity import Quantity
    from vm.cel.native import native
    from vm.values import Err

    plain = str(value) if isinstance(value, Quantity) else native(value)
    if isinstance(plain, Err):
        return display(value)
    return json.dumps(plain, indent=2, ensure_ascii=False)
