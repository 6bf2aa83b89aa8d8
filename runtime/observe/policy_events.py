"""What policies did, as events: Kyverno's reasons, actions, reporters and texts (semantics §26).

The webhook tells of each judged request through :meth:`PolicyEvents.judged`; the controllers call the others. All of
them return at once (``runtime.observe.events`` queues), and none decides whether an event is wanted: reasons that are
omitted, and successes nobody asked for, end in the queue's own check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from runtime.engine import ERROR, FAIL, PASS, SKIP, EngineResponse, RuleResult
from runtime.observe.events import APPLIED, FAILED, SKIPPED, VIOLATION, Events
from runtime.policyset import PolicyInfo
from runtime.request import Request

if TYPE_CHECKING:
    from runtime.webhook.live import Judged

Object = Mapping[str, Any]

ADMISSION: Final = "kyverno-admission"
SCAN: Final = "kyverno-scan"
GENERATE: Final = "kyverno-generate"
MUTATE: Final = "kyverno-mutate"
CLEANUP: Final = "kyverno-cleanup"

PASSED: Final = "Resource Passed"
BLOCKED: Final = "Resource Blocked"
MUTATED: Final = "Resource Mutated"
GENERATED: Final = "Resource Generated"
CLEANED: Final = "Resource Cleaned Up"
NOTHING: Final = "None"


class PolicyEvents:
    """``uid_of`` gives the uid of a policy or exception by kind, namespace and name, empty where it is not known:
    ``kubectl describe`` finds the events of an object by it."""

    def __init__(
        self, events: Events, uid_of: Callable[[str, str, str], str] = lambda kind, namespace, name: ""
    ) -> None:
        self._events = events
        self._uid_of = uid_of

    def judged(self, judged: Judged) -> None:
        """An admission request: what broke rules, what exceptions freed from them, and where it is asked for, what
        passed. A dry run leaves no trace (semantics §26)."""
        response = judged.response
        request = judged.request
        if request.dry_run:
            return
        blocked = not judged.decision.allowed
        if response.results:
            # A refused object never was: with the uid of each try, one who tries again would fill the list.
            about = resource_of(request, existed=not blocked or request.operation != "CREATE")
            for result in response.results:
                info = result.info
                # Kyverno does not even look at what only audits once a request is refused.
                if info is None or (blocked and response.what == "validate" and not info.enforcing):
                    continue
                if result.status in (FAIL, ERROR):
                    self._violation(info, result, about, ADMISSION, blocked)
                elif result.status == SKIP and result.exceptions and not blocked:
                    self._skipped(info, result, about, ADMISSION)
        if not blocked and (self._events.wants(APPLIED, PASSED) or self._events.wants(APPLIED, MUTATED)):
            self._applied(response)

    def scanned(self, resource: Object, results: Iterable[RuleResult]) -> None:
        """Violations that a scan found in an object of the cluster. Meant for those that are new: what a scan finds
        again every hour is in the report, and needs no event."""
        for result in results:
            if result.info is None:
                continue
            if result.status in (FAIL, ERROR):
                self._violation(result.info, result, resource, SCAN, blocked=False)
            elif result.status == SKIP and result.exceptions:
                self._skipped(result.info, result, resource, SCAN)

    def generated(self, info: PolicyInfo, rule: str, made: Iterable[Object]) -> None:
        """Objects that a generate rule made or changed: one event on the policy, one on each of them."""
        for target in made:
            kind, name = target.get("kind"), (target.get("metadata") or {}).get("name")
            self._emit(APPLIED, GENERATED, "resource generated", self.policy(info), target, GENERATE)
            text = f"Created {kind} {name} as a result of applying policy {info.name}/{rule}"
            self._emit(APPLIED, NOTHING, text, target, None, GENERATE)

    def mutated(self, info: PolicyInfo, changed: Iterable[Object]) -> None:
        """Objects of the cluster that a rule with targets changed."""
        for target in changed:
            self._emit(APPLIED, MUTATED, "resource mutated", self.policy(info), target, MUTATE)

    def failed(self, info: PolicyInfo, rule: str, problem: object, resource: Object | None, reporter: str) -> None:
        """A rule that works in the background could not do its work. ``reporter`` is :data:`GENERATE` or
        :data:`MUTATE`, ``resource`` the object that set it off, or the target."""
        text = f"policy {info.name}/{rule} error: {problem}"
        self._emit(FAILED, NOTHING, text, self.policy(info), resource, reporter)

    def cleaned(self, policy: Object, target: Object, problem: object = None) -> None:
        """An object that a cleanup policy removed, or with ``problem`` could not. ``policy`` is its object."""
        metadata = target.get("metadata") or {}
        # Kyverno quirk: the slash of the namespace is there without one too.
        named = f"{target.get('kind')}/{metadata.get('namespace') or ''}/{metadata.get('name')}"
        if problem is None:
            text = f"successfully cleaned up the target resource {named}"
            self._emit(APPLIED, CLEANED, text, policy, target, CLEANUP)
        else:
            text = f"failed to clean up the target resource {named}: {problem}"
            self._emit(FAILED, NOTHING, text, policy, target, CLEANUP)

    def policy(self, info: PolicyInfo) -> Object:
        """A policy as events refer to it."""
        return self._named(info.api_version, info.kind, info.namespace or "", info.name)

    def _named(self, api_version: str, kind: str, namespace: str, name: str) -> Object:
        uid = self._uid_of(kind, namespace, name)
        return {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
        }

    def _violation(self, info: PolicyInfo, result: RuleResult, about: Object, reporter: str, blocked: bool) -> None:
        mark = " (blocked)" if blocked else ""
        text = f"{_title(about)}: [{result.rule}] {result.status}{mark}"
        if result.message:
            text += f"; {result.message}"
        self._emit(VIOLATION, BLOCKED if blocked else PASSED, text, self.policy(info), about, reporter)
        if not blocked:
            text = f"policy {info.name}/{result.rule} {result.status}: {result.message}"
            self._emit(VIOLATION, PASSED, text, about, None, reporter)

    def _skipped(self, info: PolicyInfo, result: RuleResult, about: Object, reporter: str) -> None:
        key = _key(about)
        for exception in result.exceptions:
            namespace, _, name = exception.rpartition("/")
            text = f"resource {key} was skipped from rule {result.rule} due to policy exception {exception}"
            self._emit(SKIPPED, PASSED, text, self.policy(info), about, reporter)
            text = f"resource {key} was skipped from policy rule {info.key}/{result.rule}"
            source = self._named("kyverno.io/v2", "PolicyException", namespace, name)
            self._emit(SKIPPED, PASSED, text, source, about, reporter)

    def _applied(self, response: EngineResponse) -> None:
        """One event a policy that judged or changed the object and found nothing wrong."""
        broken = {id(result.info) for result in response.results if result.status in (FAIL, ERROR)}
        passed: dict[int, PolicyInfo] = {id(plan.policy): plan.policy for plan in response.passed}
        for result in response.results:
            if result.info is not None and result.status == PASS:
                passed[id(result.info)] = result.info
        about: Object | None = None
        for key, info in passed.items():
            if key in broken:
                continue
            about = about or resource_of(response.request)
            action, text = (
                (PASSED, "{}: pass") if response.what == "validate" else (MUTATED, "{} is successfully mutated")
            )
            self._emit(APPLIED, action, text.format(_title(about)), self.policy(info), about, ADMISSION)

    def _emit(
        self, reason: str, action: str, text: str, regarding: Object, related: Object | None, reporter: str
    ) -> None:
        self._events.emit(reason, action, text, regarding, related=related, reporter=reporter)


def resource_of(request: Request, *, existed: bool = True) -> Object:
    """The object of a request as events refer to it: as the object names itself, since the namespace of a request for a
    Namespace is that Namespace. ``existed``: it has the uid that it says it has."""
    resource = request.resource
    metadata = resource.get("metadata") if type(resource) is dict else None
    if type(metadata) is not dict:
        metadata = {"namespace": request.namespace}
    return {
        "apiVersion": f"{request.group}/{request.version}" if request.group else request.version,
        "kind": request.kind,
        "metadata": {
            "name": metadata.get("name") or request.name,
            "namespace": metadata.get("namespace"),
            "uid": metadata.get("uid") if existed else None,
        },
    }


def _title(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return f"{obj.get('kind')} {namespace}/{name}" if namespace else f"{obj.get('kind')} {name}"


def _key(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return "/".join(str(part) for part in (obj.get("kind"), metadata.get("namespace"), metadata.get("name")) if part)
