"""``thesmos crds``: the custom resource definitions, to be piped into ``kubectl apply -f -``."""

from __future__ import annotations

import argparse

from runtime.cli.problem import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``crds``."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="names as clusterpolicies.kyverno.io (default: all but openreports.io)"
    )
    parser.add_argument("--list", action="store_true", help="print the names only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of YAML")


def run(args: argparse.Namespace) -> int:
    from compiler.schema.structural import crd_manifests

    manifests = {m["metadata"]["name"]: m for m in crd_manifests("*")}
    unknown = [name for name in args.names if name not in manifests]
    if unknown:
        raise Problem(f"there is no definition {unknown[0]} (there are: {', '.join(manifests)})")
    usual = {m["metadata"]["name"] for m in crd_manifests()}
    chosen = args.names or [name for name in manifests if args.list or name in usual]
    if args.list:
        print("\n".join(chosen))
    elif args.json:
        import json

        items = [manifests[name] for name in chosen]
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))
    else:
        from runtime.cli.output import to_yaml

        print("---\n".join(to_yaml(manifests[name]) for name in chosen), end="")
    return 0
