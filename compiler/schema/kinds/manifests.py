"""Documents that are given as CustomResourceDefinitions, checked before :mod:`compiler.schema.kinds.custom` reads them.

Called by the command line for ``--crd``. The reader itself passes over what it cannot read, as befits definitions that
an API server has accepted; those of a file nobody has looked at yet, so what would be passed over is told here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.source import Document, pointer
from compiler.yaml_events import type_name

KIND: Final = "CustomResourceDefinition"
GROUP: Final = "apiextensions.k8s.io"
CODE: Final = "T1232"
_NAMES: Final = (("group",), ("names", "kind"), ("names", "plural"))


def is_crd(value: dict[str, Any]) -> bool:
    """Whether a document is meant as a definition: by its kind, in the group of definitions."""
    return value.get("kind") == KIND and str(value.get("apiVersion") or "").partition("/")[0] == GROUP


def definitions(documents: Iterable[Document], reporter: Reporter) -> list[dict[str, Any]]:
    """The definitions among documents, in order. One that could not be read is an error (T1232) and left out."""
    found = []
    for document in documents:
        if not is_crd(document.value):
            continue
        before = reporter.errors
        _Check(document, reporter).run()
        if reporter.errors == before:
            found.append(document.value)
    return found


class _Check:
    """Tells what of a definition cannot be read."""

    def __init__(self, document: Document, reporter: Reporter) -> None:
        self._document = document
        self._reporter = reporter

    def run(self) -> None:
        spec = self._document.value.get("spec")
        if not self._is(spec, dict, "spec"):
            return
        for path in _NAMES:
            self._is(_at(spec, path), str, "spec", *path)
        versions = spec.get("versions")
        if versions is None and isinstance(spec.get("version"), str):
            self._schema(spec.get("validation"), "spec", "validation")  # the older form: one schema for all versions
        elif self._is(versions, list, "spec", "versions"):
            for n, version in enumerate(versions):
                if self._is(version, dict, "spec", "versions", n):
                    self._is(version.get("name"), str, "spec", "versions", n, "name")
                    self._schema(version.get("schema"), "spec", "versions", n, "schema")

    def _schema(self, holder: Any, *path: str | int) -> None:
        """A version may have no schema; one that is written must be a map."""
        if holder is None or not self._is(holder, dict, *path):
            return
        if holder.get("openAPIV3Schema") is not None:
            self._is(holder["openAPIV3Schema"], dict, *path, "openAPIV3Schema")

    def _is(self, value: Any, wanted: type[dict[str, Any] | list[Any] | str], *path: str | int) -> bool:
        if isinstance(value, wanted) and value != "":
            return True
        name = ".".join(map(str, path))
        said = f"{name} is missing" if value is None else f"{name} is {type_name(value)}"
        if value == "":
            said = f"{name} is empty"
        expected = type_name(wanted())
        span = self._document.spans.span(pointer(*path))
        self._reporter.error(CODE, span, f"the definition cannot be read: {said}", expected)
        return False


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
