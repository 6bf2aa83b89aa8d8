"""``thesmos verify``: checks bundles as the webhook does before it runs them."""

from __future__ import annotations

import argparse
import json
import sys

from runtime.cli.problem import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``verify``."""
    parser.epilog = "Exit code 0 when every bundle is sound, 2 when one is not."
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help="bundle files")
    parser.add_argument(
        "--key", action="append", default=[], metavar="PEM", help="ask for a signature by one of these public keys"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    from runtime.bundles import make_imports, read_file
    from runtime.cli.keys import load_trust
    from vm.bundle import BundleError, read_bundle
    from vm.verify import VerifyError, verify

    trust = load_trust(args.key)
    imports = make_imports()
    outcomes = []
    for path in args.bundles:
        data = read_file(path)
        outcome = {
            "bundle": path,
            "ok": True,
            "digest": "",
            "functions": 0,
            "policies": 0,
            "signedBy": None,
            "error": "",
        }
        try:
            unverified = read_bundle(data, trust=trust)
            verify(unverified, imports)
            module = unverified.module
            outcome |= {
                "digest": unverified.digest.hex(),
                "functions": len(module.functions),
                "policies": len(module.policies),
                "signedBy": unverified.key_id,
            }
        except (BundleError, VerifyError) as error:
            outcome |= {"ok": False, "error": str(error)}
        outcomes.append(outcome)
    if args.json:
        print(json.dumps(outcomes, indent=2))
    else:
        for outcome in outcomes:
            if outcome["ok"]:
                signed = f", signed by {outcome['signedBy']}" if outcome["signedBy"] else ""
                print(
                    f"{outcome['bundle']}: ok, {outcome['policies']} policies, {outcome['functions']} functions{signed}"
                )
    bad = [o for o in outcomes if not o["ok"]]
    for outcome in bad[:-1]:
        print(f"error: {outcome['bundle']}: {outcome['error']}", file=sys.stderr)
    if bad:
        raise Problem(f"{bad[-1]['bundle']}: {bad[-1]['error']}")
    return 0
