"""The reference evaluator behind the same interface as the VM, so that the judging can be checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.source import Document
from runtime.cli.files import PolicyFile, identity
from runtime.cli.offline import Answer, Policies, Refused, offline_request
from runtime.cli.values import Values
from runtime.context.outside import Outside
from runtime.engine import RuleResult
from runtime.policyset import PolicyInfo, PolicySet
from runtime.request import UserInfo
from tests.reference.evaluate import evaluate
from tests.reference.world import NoAnswer, Unsupplied, World
from vm.host import HostCall
from vm.values import Err


@dataclass(frozen=True, slots=True)
class _Loaded(Policies):
    known: tuple[tuple[PolicyInfo, dict[str, Any]], ...] = ()
    exceptions_given: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class _Supplied(World):
    """What the test file supplies, by its own reader: the conformance data judges what is made of the answers."""

    outside: Outside = field(default_factory=Outside)

    def config_map(self, namespace: str, name: str) -> dict[str, Any]:
        return dict(self._ask("configmap", namespace=namespace, name=name))

    def service(self, url: Any, method: str, body: Any) -> Any:
        return self._ask("apicall", service={"url": url}, method=method, data=body)

    def api(self, path: str, method: str, body: Any) -> Any:
        return self._ask("apicall", urlPath=path, method=method, data=body)

    def global_entry(self, name: Any) -> Any:
        return self._ask("globalcontext", name=name)

    def image(self, reference: Any) -> Any:
        return self._ask("imagedata", reference=reference)

    def _ask(self, kind: str, **payload: Any) -> Any:
        answer = self.outside.answer(HostCall(kind, {"for": {"entry": "entry", "rule": ""}, **payload}))
        if isinstance(answer, Err):
            raise (Unsupplied if answer.code == "unsupplied" else NoAnswer)(answer.text)
        return answer


class ByReference:
    """Evaluates documents as they are; knows ClusterPolicy and Policy only."""

    def load(self, files: Iterable[PolicyFile], exceptions: Iterable[Document]) -> Policies:
        refused: list[Refused] = []
        known: list[tuple[PolicyInfo, dict[str, Any]]] = []
        for document in (d for file in files for d in file.documents):
            kind, name = document.value.get("kind"), identity(document.value)[3]
            if kind in ("ClusterPolicy", "Policy"):
                known.append((_info(document.value), document.value))
            else:
                refused.append(Refused(str(kind), name, ()))
        given = tuple(d.value for d in exceptions)
        return _Loaded(PolicySet.empty(), tuple(refused), (), len(given), known=tuple(known), exceptions_given=given)

    def evaluate(
        self,
        policies: Policies,
        resource: dict[str, Any],
        values: Values,
        user: UserInfo | None,
        operation: str | None,
    ) -> list[Answer]:
        assert isinstance(policies, _Loaded)
        answers: list[Answer] = []
        current = resource
        held = values.outside.objects
        world = _Supplied(
            objects=(*values.targets, *(held.all() if held is not None else ())),
            sources=values.sources,
            rule_values=_of_rules(values.rules),
            foreach_values=_of_rules(values.elements),
            outside=values.outside,
        )
        for phase in (True, False):
            for info, document in policies.known:
                request = offline_request(current, info, values, user, operation)
                context = {k: v for k, v in request.root.items() if not k.startswith("$")}
                asked = {"userInfo": user.as_json(), "roles": list(user.roles)} if user else None
                if asked and user:
                    asked["clusterRoles"] = list(user.cluster_roles)
                found = evaluate(
                    [document, *policies.exceptions_given],
                    request.resource,
                    operation=request.operation,
                    old=request.root["$old"],
                    user=asked,
                    namespace_labels=dict(request.namespace_labels) if request.namespace_labels is not None else None,
                    context=context,
                    world=world,
                    namespace_object=values.namespaces.get(request.namespace or ""),
                    existed=request.old is not None,
                    subresource=request.subresource,
                    kind=(request.group, request.version, request.kind),
                    phases=("mutate",) if phase else ("validate", "background"),
                )
                if not found and phase:
                    continue
                patched = next((r.patched for r in reversed(found) if r.patched), current) if phase else current
                for one in (r for r in found if r.target is not None):
                    changed = (_result(info, one, "mutateExisting"),)
                    answers.append(
                        Answer(info, one.target, request.operation, True, changed, one.patched or one.target)
                    )
                plain = [r for r in found if r.target is None]
                results = tuple(_result(info, r, _kind(r, phase)) for r in plain)
                made = {r.rule: tuple(r.generated) for r in plain if r.generated is not None}
                answers.append(Answer(info, resource, request.operation, phase, results, patched, made))
                if phase:
                    current = patched
        return answers


def _of_rules(values: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Values of rules, for the rules that autogen makes of them too."""
    names = ("", "autogen-", "autogen-cronjob-")
    return {(policy, prefix + rule): v for prefix in names for (policy, rule), v in values.items()}


def _kind(result: Any, mutating: bool) -> str:
    return "mutate" if mutating else "generate" if result.generated is not None else "validate"


def _result(info: PolicyInfo, result: Any, kind: str) -> RuleResult:
    return RuleResult(
        info.name,
        info.namespace,
        result.rule,
        kind,
        result.status,
        result.message,
        info.action,
        patched=result.patched,
        info=info,
    )


def _info(document: dict[str, Any]) -> PolicyInfo:
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    namespaced = document.get("kind") == "Policy"
    return PolicyInfo(
        name=str(metadata.get("name")),
        namespace=str(metadata.get("namespace") or "default") if namespaced else None,
        kind=str(document.get("kind")),
        api_version=str(document.get("apiVersion")),
        action="Audit",
        overrides=(),
        apply_one=False,
        failure_policy="Fail",
        emit_warning=False,
        background=True,
        admission=True,
        scored=annotations.get("policies.kyverno.io/scored") != "false",
        enforcing=False,
        recorded=False,
        properties_vary=False,
        annotations=annotations,
        meta={},
    )
