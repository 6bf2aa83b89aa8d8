"""The guide's own forms to Kyverno's, on JSON, before the model is built; called by ``read_policies`` (decision 5).

Each rewriting leaves a note with the standard form, and tells the source map where the parts were written. The document
itself is not changed: maps on the way are copied. Fields that are null are left out, as the API server reads them.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document

Json: TypeAlias = Any

_ACTIONS: Final = {"audit": "Audit", "enforce": "Enforce", "Audit": "Audit", "Enforce": "Enforce"}


def normalise_spec(doc: Document, reporter: Reporter) -> dict[str, Json]:
    """The ``spec`` of a ClusterPolicy or Policy in standard form."""
    spec = _given(doc.value["spec"])
    n = _Normaliser(doc, reporter)
    n.action(spec, "validationFailureAction", "/spec")
    n.overrides(spec, "validationFailureActionOverrides", "/spec")
    spec["rules"] = [n.rule(rule, f"/spec/rules/{i}") for i, rule in enumerate(spec.get("rules", ()))]
    return spec


def normalise_match(doc: Document, block: dict[str, Json], at: str, reporter: Reporter) -> dict[str, Json]:
    """A match block outside a rule (that of an exception) in standard form."""
    return _Normaliser(doc, reporter).block(block, at)


def _given(value: dict[str, Json]) -> dict[str, Json]:
    return {k: v for k, v in value.items() if v is not None}


class _Normaliser:
    __slots__ = ("_doc", "_reporter")

    def __init__(self, doc: Document, reporter: Reporter) -> None:
        self._doc = doc
        self._reporter = reporter

    def rule(self, rule: dict[str, Json], at: str) -> dict[str, Json]:
        out = _given(rule)
        if "validation" in out:
            span = self._doc.spans.key_span(at + "/validation")
            if "validate" in out:
                self._reporter.error(
                    "T0207", span, "validate and validation are two names of one field", "one of the two"
                )
                del out["validation"]
            else:
                self._reporter.note(
                    "T0401", span, "validation is read as validate", "", "the standard form is: validate:"
                )
                out["validate"] = out.pop("validation")
                self._doc.spans.move(at + "/validate", at + "/validation")
        for name in ("match", "exclude"):
            if name in out:
                out[name] = self.block(out[name], f"{at}/{name}")
        for name in ("validate", "mutate"):
            if name in out:
                out[name] = _given(out[name])
        if "validate" in out:
            self.action(out["validate"], "failureAction", at + "/validate")
            self.overrides(out["validate"], "failureActionOverrides", at + "/validate")
        return out

    def block(self, block: dict[str, Json], at: str) -> dict[str, Json]:
        out = self.filter(block, at)
        for mode in ("any", "all"):
            if mode in out:
                out[mode] = [self.filter(f, f"{at}/{mode}/{i}") for i, f in enumerate(out[mode])]
        return out

    def filter(self, value: dict[str, Json], at: str) -> dict[str, Json]:
        out = _given(value)
        if "resources" in out:
            out["resources"] = self.resources(out["resources"], at + "/resources")
        if "operations" in out:
            span = self._doc.spans.key_span(at + "/operations")
            inner = out.get("resources", {})
            if "operations" in inner:
                self._reporter.error(
                    "T0207", span, "operations are given beside resources and inside them", "one of the two"
                )
                del out["operations"]
            else:
                self._reporter.note(
                    "T0402",
                    span,
                    "operations beside resources are read as part of them",
                    "",
                    "the standard form is: resources: {…, operations: [" + ", ".join(out["operations"]) + "]}",
                )
                out["resources"] = {**inner, "operations": out.pop("operations")}
                self._doc.spans.move(at + "/resources/operations", at + "/operations")
        return out

    def resources(self, value: dict[str, Json], at: str) -> dict[str, Json]:
        out = _given(value)
        if "labels" in out:
            self._reporter.note(
                "T0404",
                self._doc.spans.key_span(at + "/labels"),
                "labels are read as selector.matchLabels",
                "",
                "the standard form is: selector: {matchLabels: …}",
            )
        if "excludeResources" in out:
            self._reporter.note(
                "T0403",
                self._doc.spans.key_span(at + "/excludeResources"),
                "excludeResources takes these resources out of the match",
                "",
                "the standard form is: exclude: {any: [{resources: …}]}",
            )
            out["excludeResources"] = self.resources(out["excludeResources"], at + "/excludeResources")
        return out

    def action(self, holder: dict[str, Json], name: str, at: str) -> None:
        """Writes an action with its capital letter."""
        value = holder.get(name)
        if type(value) is str and value != (standard := _ACTIONS.get(value, value)):
            holder[name] = standard
            self._reporter.note(
                "T0405",
                self._doc.spans.span(f"{at}/{name}"),
                f"{value} is read as {standard}",
                "",
                f"the standard form is: {name}: {standard}",
            )

    def overrides(self, holder: dict[str, Json], name: str, at: str) -> None:
        if name in holder:
            entries = [_given(e) for e in holder[name]]
            for i, entry in enumerate(entries):
                self.action(entry, "action", f"{at}/{name}/{i}")
            holder[name] = entries
