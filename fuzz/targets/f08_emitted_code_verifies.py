"""All that the compiler makes verifies, at every level; and no bundle with a byte changed gets past its digest."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from compiler import Options, compile_policies, load_documents
from compiler.diagnostics import Reporter
from compiler.dynamic import make_imports
from fuzz.explore import explore
from fuzz.gen import policy as policies
from fuzz.targets.f06_tiers_agree import observed
from runtime.request import Request
from vm.bundle import BundleError, read_bundle
from vm.disasm import disassemble
from vm.interp import interpret
from vm.tier2 import translate
from vm.verify import VerifiedModule, VerifyError, verify

NAME: Final = "f08_emitted_code_verifies"
PROPERTY: Final = "verify(read(compile(p))) holds; for each byte i and value x: read(b[i := x]) is a BundleError"

_IMPORTS: Final = make_imports()
_FUEL: Final = 1_000_000


def verified(bundle: bytes) -> VerifiedModule:
    """The verified module of what the compiler wrote. ``AssertionError`` when the verifier refuses it."""
    read = read_bundle(bundle)
    try:
        return verify(read, _IMPORTS)
    except VerifyError as problem:
        raise AssertionError(f"the compiler's own code is refused: {problem}\n{disassemble(read.module)}") from None


def check(policy: dict[str, Any], resource: dict[str, Any]) -> None:
    text = json.dumps(policy)
    documents = load_documents(text, "p.yaml", Reporter())
    root = Request.from_resource(resource).root
    for level in (0, 1, 2):
        bundle = compile_policies(documents, options=Options(level=level)).bundle
        if bundle is None:
            return  # the compiler refuses the policy
        module = verified(bundle)
        one, two = interpret(module), translate(module)
        for fn in module.functions:
            if not fn.params and fn.role in ("entry", "exception"):
                first = observed(one, fn.number, root, _FUEL, [])
                second = observed(two, fn.number, root, _FUEL, [])
                assert first == second, f"{first!r} on tier 1, {second!r} on tier 2\n{text}\n{json.dumps(resource)}"
        damaged(bundle, Random(len(bundle)))


def damaged(bundle: bytes, rng: Random) -> None:
    """Changes single bytes here and there; each must be found out."""
    for _ in range(20):
        at, flip = rng.randrange(len(bundle)), rng.randrange(1, 256)
        broken = bytearray(bundle)
        broken[at] ^= flip
        try:
            read_bundle(bytes(broken))
        except BundleError:
            continue
        raise AssertionError(f"byte {at} changed by {flip:#x} went unnoticed: {bundle.hex()}")


def run(seconds: float, seed: int) -> int:
    return explore([(policies.cases(), check)], seconds, seed)
