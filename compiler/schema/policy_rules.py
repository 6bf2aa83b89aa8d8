"""What a policy may say beyond its structure (semantics §27); called by ``read_policies`` on the normalised spec.

Checks run on JSON rather than on the model, so that a diagnostic can point at exactly what is written. Patterns,
queries and kind selectors are checked by the front ends that read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema import (
    cel_rules,
    condition_rules,
    context_rules,
    label_rules,
    loop_rules,
    match_rules,
    mutate_rules,
    pattern_rules,
    pod_security_rules,
)
from compiler.source import Document, pointer

Json: TypeAlias = Any

AUTOGEN_ANNOTATION: Final = "pod-policies.kyverno.io/autogen-controllers"
MAX_NAME: Final = 63
"""Characters of a rule name, and of a policy name, which labels and webhook names carry."""

_ACTIONS: Final = ("validate", "mutate", "generate", "verifyImages", "cleanup")
_VALIDATE: Final = ("pattern", "anyPattern", "deny", "podSecurity", "manifests", "cel", "assert", "foreach")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VARIABLE = re.compile(r"\{\{(?:\{[^{}]*\}|[^{}])*\}\}")
_USER = re.compile(
    r"""(?<![\w"]\.)(?<!\w)(serviceAccountName|serviceAccountNamespace|request\."?(?:userInfo|roles|clusterRoles))\b"""
)
_DEPRECATED_SPEC: Final = {
    "validationFailureAction": "failureAction under validate",
    "validationFailureActionOverrides": "failureActionOverrides under validate",
    "webhookTimeoutSeconds": "webhookConfiguration.timeoutSeconds",
    "failurePolicy": "webhookConfiguration.failurePolicy",
    "generateExisting": "generateExisting under generate",
    "mutateExistingOnPolicyUpdate": "mutateExistingOnPolicyUpdate under mutate",
}
_NO_EFFECT: Final = {
    "schemaValidation": "schemas are never checked by a policy",
    "generateExistingOnPolicyUpdate": "",
}


def check_metadata(doc: Document, kind: str, reporter: Reporter) -> None:
    """Name, namespace, labels and annotations of a policy or an exception."""
    spans = doc.spans
    meta = doc.value.get("metadata")
    if meta is None:
        reporter.error("T0203", spans.key_span("/kind"), f"a {kind} needs metadata", "metadata: {name: …}")
        return
    if type(meta) is not dict:
        reporter.error("T0202", spans.span("/metadata"), "metadata must be a map", "a map")
        return
    name = meta.get("name")
    if name is None and type(meta.get("generateName")) is str:
        reporter.error(
            "T0208", spans.key_span("/metadata/generateName"), f"a {kind} needs a name of its own", "name: …"
        )
    elif name is None or name == "":
        reporter.error("T0203", spans.key_span("/metadata"), f"a {kind} needs a name", "name: …")
    elif type(name) is not str:
        source = spans.source_text("/metadata/name")
        reporter.error(
            "T0202", spans.span("/metadata/name"), "name must be a text", "a text", f'put it in quotes: "{source}"'
        )
    elif len(name) > 253 or not _DNS_NAME.fullmatch(name):
        reporter.error(
            "T0208",
            spans.span("/metadata/name"),
            f'"{name}" is not a valid name',
            "lower-case letters, digits, - and ., beginning and ending with a letter or digit",
        )
    elif len(name) > MAX_NAME and kind != "PolicyException":
        reporter.error(
            "T0323",
            spans.span("/metadata/name"),
            f"the policy name has {len(name)} characters",
            f"at most {MAX_NAME} characters",
        )
    namespace = meta.get("namespace")
    if namespace is not None and (type(namespace) is not str or not _DNS_NAME.fullmatch(namespace)):
        reporter.error("T0208", spans.span("/metadata/namespace"), "the namespace is not a valid name", "a DNS name")
    elif namespace is not None and kind == "ClusterPolicy":
        reporter.warning(
            "T0406",
            spans.key_span("/metadata/namespace"),
            "a ClusterPolicy has no namespace, this one is ignored",
            "",
            "remove it, or make it a Policy to cover one namespace only",
        )
    for field in ("labels", "annotations"):
        values = meta.get(field)
        if values is None:
            continue
        if type(values) is not dict:
            reporter.error("T0202", spans.span(f"/metadata/{field}"), f"{field} must be a map", "a map of texts")
            continue
        for key, value in values.items():
            if type(value) is not str and value is not None:
                at = pointer("metadata", field, key)
                source = spans.source_text(at)
                reporter.error(
                    "T0202",
                    spans.span(at),
                    f"the values of {field} must be texts",
                    "a text",
                    f'put it in quotes: "{source}"' if type(value) not in (dict, list) else "",
                )


def check_policy(doc: Document, kind: str, spec: dict[str, Json], reporter: Reporter) -> None:
    """Everything about the policy as a whole, then each of its rules."""
    spans = doc.spans
    rules: list[dict[str, Json]] = spec["rules"]
    background = spec.get("background", True)
    for name, newer in _DEPRECATED_SPEC.items():
        if name in spec:
            reporter.warning(
                "T0502", spans.key_span(f"/spec/{name}"), f"{name} is deprecated", "", f"the newer form is {newer}"
            )
    for name, why in _NO_EFFECT.items():
        if name in spec:
            reporter.warning("T0503", spans.key_span(f"/spec/{name}"), f"{name} has no effect", "", why)
    if not rules:
        reporter.error("T0203", spans.key_span("/spec/rules"), f"a {kind} needs at least one rule", "rules: [{…}]")
    if spec.get("admission", True) is False:
        if not background:
            reporter.error(
                "T0319",
                spans.key_span("/spec/admission"),
                "with admission and background both false the policy never runs",
                "",
                "remove one of the two",
            )
        if any(rule.get(action) for rule in rules for action in ("mutate", "generate", "verifyImages")):
            reporter.error(
                "T0319",
                spans.key_span("/spec/admission"),
                "only policies of validate rules can do without admission",
                "admission: true",
            )
    for at in ("/spec/webhookTimeoutSeconds", "/spec/webhookConfiguration/timeoutSeconds"):
        value = _at(spec, at.split("/")[2:])
        if value is not None and not 1 <= value <= 30:
            reporter.error("T0204", spans.span(at), f"the timeout is {value} seconds", "1 to 30 seconds")
    if kind == "ClusterPolicy":
        match_rules.check_overrides(
            doc, spec.get("validationFailureActionOverrides"), "/spec/validationFailureActionOverrides", reporter
        )
    if conditions := (spec.get("webhookConfiguration") or {}).get("matchConditions"):
        at = "/spec/webhookConfiguration/matchConditions"
        cel_rules.check_conditions(doc, conditions, at, reporter, qualified=True)
    _controllers(doc, reporter)
    first: dict[str, int] = {}
    for i, rule in enumerate(rules):
        at = f"/spec/rules/{i}"
        name = rule["name"]
        if (earlier := first.setdefault(name, i)) != i:
            line = spans.span(f"/spec/rules/{earlier}/name").line
            reporter.error(
                "T0301",
                spans.span(at + "/name"),
                f'a rule "{name}" is already there in line {line}',
                "a name of its own for each rule",
            )
        _rule(doc, kind, spec, rule, at, reporter)


def _controllers(doc: Document, reporter: Reporter) -> None:
    """Warns of names in the autogen annotation that a space keeps from naming a controller."""
    asked: Json = (doc.value["metadata"].get("annotations") or {}).get(AUTOGEN_ANNOTATION)
    if not isinstance(asked, str):
        return
    for name in asked.split(","):
        if name.strip() != name:
            at = pointer("metadata", "annotations", AUTOGEN_ANNOTATION)
            start = asked.index(name)
            reporter.warning(
                "T0601",
                doc.spans.text_span(at, start, start + len(name)),
                f'"{name}" with its space is no controller',
                "",
                f"write it without spaces: {','.join(n.strip() for n in asked.split(','))}",
            )


def _rule(doc: Document, kind: str, spec: dict[str, Json], rule: dict[str, Json], at: str, reporter: Reporter) -> None:
    spans = doc.spans
    background = spec.get("background", True)
    name = rule["name"]
    if not name:
        reporter.error("T0203", spans.span(at + "/name"), "the rule has an empty name", "name: …")
    if len(name) > MAX_NAME:
        reporter.error(
            "T0304",
            spans.span(at + "/name"),
            f"the rule name has {len(name)} characters",
            f"at most {MAX_NAME} characters",
        )
    if m := _VARIABLE.search(name):
        reporter.error(
            "T0311",
            spans.text_span(at + "/name", m.start(), m.end()),
            "a rule name cannot hold variables",
            "a fixed text",
        )
    given = [a for a in _ACTIONS if rule.get(a) not in (None, [])]
    if not given:
        reporter.error(
            "T0302",
            spans.span(at + "/name"),
            f'the rule "{name}" does nothing',
            "one of validate, mutate, generate, verifyImages",
        )
    elif len(given) > 1:
        reporter.error(
            "T0303",
            spans.key_span(f"{at}/{given[1]}"),
            f'the rule "{name}" has several actions: {" and ".join(given)}',
            "one action",
            "make a rule of each",
        )
    match_rules.check_rule(doc, kind, rule, at, background, reporter)
    context_rules.check_rule(doc, kind, rule, at, reporter)
    if (conditions := rule.get("preconditions")) is not None:
        condition_rules.check(doc, conditions, at + "/preconditions", reporter)
    cel_rules.check_rule(doc, rule, at, reporter)
    label_rules.check(doc, rule, at, reporter)
    if (validate := rule.get("validate")) is not None:
        _validate(doc, kind, validate, at + "/validate", reporter)
    if (mutate := rule.get("mutate")) is not None:
        mutate_rules.check(doc, kind, mutate, at + "/mutate", reporter)
        existing = mutate.get("mutateExistingOnPolicyUpdate")
        inherited = existing is None and spec.get("mutateExistingOnPolicyUpdate")
        if (existing or inherited) and not mutate.get("targets"):
            reporter.error(
                "T0203",
                spans.key_span(at + "/mutate/mutateExistingOnPolicyUpdate" if existing else at + "/mutate"),
                "a rule that changes existing objects when the policy changes must say which",
                "targets: [{apiVersion: …, kind: …}]",
            )
    if background and not (rule.get("mutate") or {}).get("targets"):
        # As in Kyverno a rule with targets lets the whole policy name users; in scans the others still have none.
        lets = any((r.get("mutate") or {}).get("targets") for r in spec["rules"])
        _user_variables(doc, rule, at, reporter.warning if lets else reporter.error)


def _validate(doc: Document, kind: str, validate: dict[str, Json], at: str, reporter: Reporter) -> None:
    spans = doc.spans
    given = [k for k in _VALIDATE if validate.get(k) is not None]
    if not given:
        reporter.error(
            "T0315", spans.key_span(at), "validate checks nothing", "one of pattern, anyPattern, deny, foreach"
        )
    elif len(given) > 1:
        reporter.error(
            "T0316",
            spans.key_span(f"{at}/{given[1]}"),
            f"validate has several checks: {' and '.join(given)}",
            "one of them",
            "make a rule of each",
        )
    if (patterns := validate.get("anyPattern")) is not None:
        pattern_rules.check_any(doc, patterns, at + "/anyPattern", reporter)
    if (pattern := validate.get("pattern")) is not None:
        pattern_rules.check(doc, pattern, at + "/pattern", reporter)
    deny = validate.get("deny")
    if deny is not None and deny.get("conditions") is not None:
        condition_rules.check(doc, deny["conditions"], at + "/deny/conditions", reporter)
    if loops := validate.get("foreach"):
        loop_rules.check(doc, loops, at + "/foreach", reporter)
    if (pod_security := validate.get("podSecurity")) is not None:
        pod_security_rules.check(doc, pod_security, at + "/podSecurity", reporter)
    if kind == "ClusterPolicy":
        match_rules.check_overrides(
            doc, validate.get("failureActionOverrides"), at + "/failureActionOverrides", reporter
        )
    if validate.get("message") == "":
        reporter.warning("T1601", spans.key_span(at + "/message"), "the message is empty", "", "say what to mend")


def _user_variables(doc: Document, rule: dict[str, Json], at: str, report: Callable[..., None]) -> None:
    for place, text, is_key in match_rules.texts(rule, at):
        if "{{" not in text:
            continue
        for variable in _VARIABLE.finditer(text):
            if m := _USER.search(variable.group()):
                start = variable.start() + m.start()
                span = (
                    doc.spans.key_span(place) if is_key else doc.spans.text_span(place, start, start + len(m.group()))
                )
                report(
                    "T0308",
                    span,
                    f"variable {{{{{m.group()}}}}} is not allowed: it is not known in background scans",
                    "",
                    "set spec.background: false, so that the policy looks at requests only",
                )


def _at(value: Json, steps: list[str]) -> Json:
    for step in steps:
        if type(value) is not dict:
            return None
        value = value.get(step)
    return value
