"""``thesmos inspect``: what a bundle holds, read and verified first, so that what is shown is what would run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from vm.code import Module, Policy, UnverifiedModule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``inspect``."""
    parser.add_argument("bundle", metavar="BUNDLE", help="a bundle file")
    parser.add_argument("--disasm", action="store_true", help="print the code, under the policy lines it came from")
    parser.add_argument("--policy", metavar="NAME", help="limit policies and code to this one")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    from runtime.bundles import make_imports, read_file
    from vm.bundle import BundleError, read_bundle
    from vm.verify import VerifyError, verify

    data = read_file(args.bundle)
    try:
        unverified = read_bundle(data)
        verify(unverified, make_imports())
    except (BundleError, VerifyError) as error:
        raise Problem(f"{args.bundle}: {error}") from None
    module = unverified.module
    if args.policy and not any(args.policy in (p.name, _key(p)) for p in module.policies):
        raise Problem(f"{args.bundle}: holds no policy {args.policy}")
    described = describe(data, unverified, args.policy)
    if args.disasm:
        described["code"] = dict(disassembly(module, args.policy))
    if args.json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
    else:
        for line in _text(args.bundle, described):
            print(line)
    return 0


def describe(data: bytes, unverified: UnverifiedModule, policy: str | None = None) -> dict[str, Any]:
    """Everything ``inspect`` shows but the code, as plain JSON."""
    module = unverified.module
    header = module.header
    return {
        "bytes": len(data),
        "digest": unverified.digest.hex(),
        "header": {
            "format": header.format,
            "language": header.language,
            "minVm": header.min_vm,
            "features": list(header.features),
            "compiler": header.compiler,
            "options": header.options,
            "sources": [{"name": name, "sha256": digest} for name, digest in header.sources],
        },
        "sections": section_sizes(data),
        "counts": {
            "constants": len(module.constants),
            "paths": len(module.paths),
            "patterns": len(module.patterns),
            "imports": len(module.imports),
            "functions": len(module.functions),
            "codeBytes": sum(len(f.code) for f in module.functions),
            "cells": len(module.cells),
        },
        "imports": [f"{i.name}/{i.version}" for i in module.imports],
        "policies": [_policy_json(module, p) for p in module.policies if not policy or policy in (p.name, _key(p))],
        "exceptions": [
            {"name": f"{x.namespace}/{x.name}", "rules": [list(r) for r in x.rules]} for x in module.exemptions
        ],
        "index": [_index_json(module, i) for i in range(len(module.index))],
        "debug": module.debug is not None,
    }


def section_sizes(data: bytes) -> dict[str, int]:
    """Bytes of each section of a bundle that has been read before."""
    import msgpack

    from vm.bundle import SECTION_NAMES

    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=len(data))
    unpacker.feed(data[4:])
    _, *sections = unpacker.unpack()
    return {SECTION_NAMES.get(number, f"section {number}"): len(content) for number, _, content in sections}


def disassembly(module: Module, policy: str | None = None) -> Iterator[tuple[str, str]]:
    """(function name, text) in the order of the bundle; with a policy, only functions that its rules can reach."""
    from vm.disasm import disassemble_function

    wanted = _reachable(module, policy) if policy else set(range(len(module.functions)))
    for number, function in enumerate(module.functions):
        if number in wanted:
            yield function.name, disassemble_function(module, number)


def _reachable(module: Module, policy: str) -> set[int]:
    from vm.code import read_uleb
    from vm.isa import BY_NUMBER, Imm

    call = next(op.number for op in BY_NUMBER.values() if op.name == "call")
    todo = [r.entry for p in module.policies if policy in (p.name, _key(p)) for r in p.rules]
    found: set[int] = set()
    while todo:
        number = todo.pop()
        if number in found:
            continue
        found.add(number)
        code, at = module.functions[number].code, 0
        while at < len(code):
            op = BY_NUMBER[code[at]]
            at += 1
            for imm in op.imm:
                value, at = read_uleb(code, at)
                if op.number == call and imm is Imm.FUNC:
                    todo.append(value)
                elif imm is Imm.CELL:
                    todo.append(module.cells[value])
    return found


def _key(policy: Policy) -> str:
    return policy.name if policy.namespace is None else f"{policy.namespace}/{policy.name}"


def _policy_json(module: Module, policy: Policy) -> dict[str, Any]:
    return {
        "name": _key(policy),
        "meta": dict(policy.meta),
        "rules": [
            {
                "name": rule.name,
                "kind": rule.kind,
                "function": module.functions[rule.entry].name,
                "keys": [_key_text(key) for key in rule.keys],
                "meta": dict(rule.meta),
            }
            for rule in policy.rules
        ],
    }


def _key_text(key: Any) -> str:
    kind = key.kind
    parts = [kind.group or '""', kind.version, kind.kind, *([kind.subresource] if kind.subresource else [])]
    return "/".join(parts) + (f" {','.join(key.operations)}" if key.operations else "")


def _index_json(module: Module, number: int) -> dict[str, Any]:
    names = [f"{_key(p)}/{r.name}" for p in module.policies for r in p.rules]
    entry = module.index[number]
    return {"key": _key_text(entry.key), "rules": [names[i] for i in entry.rules]}


def _text(path: str, described: dict[str, Any]) -> Iterator[str]:
    header = described["header"]
    yield f"{path}: {described['bytes']} bytes, sha256 {described['digest']}"
    yield f"  format {header['format']}, language {header['language']}, needs VM {header['minVm']}"
    yield f"  made by {header['compiler']}" + (f", options {header['options']}" if header["options"] else "")
    for source in header["sources"]:
        yield f"  from {source['name']} (sha256 {source['sha256'][:16]}…)"
    yield "  debug information: " + ("yes" if described["debug"] else "stripped")
    yield "sections: " + ", ".join(f"{name} {size}" for name, size in described["sections"].items())
    yield "counts: " + ", ".join(f"{name} {count}" for name, count in described["counts"].items())
    if described["imports"]:
        yield "imports: " + ", ".join(described["imports"])
    for policy in described["policies"]:
        action = policy["meta"].get("failureAction") or "Audit"
        yield f"policy {policy['name']} ({policy['meta'].get('kind', 'ClusterPolicy')}, {action})"
        for rule in policy["rules"]:
            own = rule["meta"].get("failureAction")
            yield f"  {rule['kind']} {rule['name']} -> {rule['function']}" + (f" ({own})" if own else "")
            yield f"    reached by {'; '.join(rule['keys']) or 'nothing'}"
    for exception in described["exceptions"]:
        named = ", ".join(f"{policy or '*'}/{rule}" for policy, rule in exception["rules"])
        yield f"exception {exception['name']} of {named}"
    yield "index:"
    for entry in described["index"]:
        yield f"  {entry['key']}: {', '.join(entry['rules'])}"
    for text in described.get("code", {}).values():
        yield ""
        yield from text.rstrip("\n").split("\n")
