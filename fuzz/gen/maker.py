"""Objects, patterns, conditions and queries from a plain random source, for policies in great numbers: a property
library would spend its time on the tree.

Everything is made around a sample value, so that what is made meets it often.
"""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

from fuzz.gen import resource as res

OPERATORS: Final = (
    "Equals",
    "NotEquals",
    "AnyIn",
    "AllIn",
    "AnyNotIn",
    "AllNotIn",
    "In",
    "NotIn",
    "GreaterThan",
    "GreaterThanOrEquals",
    "LessThan",
    "LessThanOrEquals",
    "DurationGreaterThan",
    "DurationLessThan",
)
_ANCHORS: Final = ("(", "=(", "X(", "<(", "^(")
_TERMS: Final = (
    "*",
    "?*",
    "n*",
    "*:latest",
    "!*:latest",
    "g?r.io/*",
    ">0",
    ">= 1",
    "<5",
    "1-5",
    "1!-5",
    "!web",
    "web | db",
)
_SCALARS: Final = (None, True, False, 0, 1, 2, 80, 1.5, "", "web", "1", "128Mi", "1h", "100m", "nginx:latest")
_VERSIONS: Final = ("1.2.3", "1.2.3-rc.1", "1.2", "v1.0.0")
_RANGES: Final = (">=1.0.0 <2.0.0", "!1.2.3", "1.2.3 || >3.0.0", ">1.2.3-alpha")
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Maker:
    """Makes things with one random source; the same source makes the same things."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def some(self, values: Any, most: int) -> list[Any]:
        """Up to ``most`` of the values, in their order."""
        values = list(values)
        count = min(len(values), self.rng.randint(0, most))
        chosen = sorted(self.rng.sample(range(len(values)), count))
        return [values[i] for i in chosen]

    # Objects

    def labels(self) -> dict[str, str]:
        return {k: self.rng.choice(res.LABEL_VALUES) for k in self.some(res.LABEL_KEYS, 3)}

    def metadata(self, namespaced: bool = True) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self.rng.choice(res.NAMES)}
        if namespaced:
            made["namespace"] = self.rng.choice(res.NAMESPACES)
        if self.chance(2):
            made["labels"] = self.labels()
        if self.chance(3):
            values = res.LABEL_VALUES + res.QUANTITIES
            made["annotations"] = {k: self.rng.choice(values) for k in self.some(res.ANNOTATION_KEYS, 2)}
        return made

    def security_context(self, *, pod: bool) -> dict[str, Any]:
        pick = self.rng.choice
        fields: dict[str, Any] = {
            "runAsNonRoot": pick((True, False)),
            "runAsUser": pick((0, 1, 1000)),
            "seccompProfile": {"type": pick(("RuntimeDefault", "Localhost", "Unconfined"))},
            "seLinuxOptions": {pick(("type", "user", "role")): pick(("", "container_t", "spc_t"))},
            "windowsOptions": {"hostProcess": pick((True, False))},
            "appArmorProfile": {"type": pick(("RuntimeDefault", "Unconfined"))},
        }
        if pod:
            fields["sysctls"] = [{"name": pick(("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "kernel.msgmax"))}]
        else:
            fields["privileged"] = pick((True, False))
            fields["allowPrivilegeEscalation"] = pick((True, False))
            fields["procMount"] = pick(("Default", "Unmasked"))
            fields["capabilities"] = {
                "add": self.some(("NET_BIND_SERVICE", "SYS_ADMIN", "CHOWN"), 2),
                "drop": self.some(("ALL", "NET_RAW"), 2),
            }
        return {k: fields[k] for k in self.some(sorted(fields), 4)}

    def container(self, name: str) -> dict[str, Any]:
        pick = self.rng.choice
        made: dict[str, Any] = {"name": name, "image": pick(res.IMAGES)}
        if self.chance(2):
            made["imagePullPolicy"] = pick(("Always", "IfNotPresent", "Never"))
        if self.chance(2):
            made["resources"] = {
                part: {k: pick(res.QUANTITIES) for k in self.some(("cpu", "memory"), 2)}
                for part in self.some(("requests", "limits"), 2)
            }
        if self.chance(2):
            made["securityContext"] = self.security_context(pod=False)
        if self.chance(3):
            ports = self.some((80, 443, 8080), 2)
            made["ports"] = [{"containerPort": p, **({"hostPort": p} if self.chance(3) else {})} for p in ports]
        if self.chance(3):
            made["env"] = [{"name": n, "value": pick(("a", "b", ""))} for n in self.some(("MODE", "LEVEL"), 2)]
        if self.chance(4):
            made["args"] = self.some(("--debug", "--port=1", "serve"), 2)
        return made

    def pod_spec(self) -> dict[str, Any]:
        pick = self.rng.choice
        names = self.rng.sample(res.NAMES, self.rng.randint(1, 3))
        made: dict[str, Any] = {"containers": [self.container(n) for n in names]}
        if self.chance(3):
            made["initContainers"] = [self.container(n) for n in self.rng.sample(res.NAMES, self.rng.randint(0, 2))]
        if self.chance(2):
            made["volumes"] = [self._volume(n) for n in self.some(res.NAMES, 2)]
        if self.chance(3):
            made["securityContext"] = self.security_context(pod=True)
        for key in self.some(("hostNetwork", "hostPID", "hostUsers"), 2):
            made[key] = pick((True, False))
        if self.chance(4):
            made["nodeSelector"] = self.labels()
        if self.chance(4):
            made["serviceAccountName"] = pick(res.NAMES)
        return made

    def _volume(self, name: str) -> dict[str, Any]:
        source: dict[str, Any] = self.rng.choice(
            ({"emptyDir": {}}, {"emptyDir": {"sizeLimit": "1Gi"}}, {"hostPath": {"path": "/tmp"}}, {"secret": {}}, {})
        )
        return {"name": name, **copy.deepcopy(source)}

    def template(self) -> dict[str, Any]:
        made: dict[str, Any] = {"spec": self.pod_spec()}
        if self.chance(2):
            made["metadata"] = {"labels": self.labels()}
        return made

    def pod(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(), "spec": self.pod_spec()}

    def resource(self) -> dict[str, Any]:
        """A Pod more often than anything else."""
        match self.rng.randrange(10):
            case 0:
                spec: dict[str, Any] = {"replicas": self.rng.randint(0, 5), "template": self.template()}
                return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(), "spec": spec}
            case 1:
                spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": self.template()}}}
                return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": self.metadata(), "spec": spec}
            case 2:
                data = {k: self.rng.choice(res.QUANTITIES) for k in self.some(("mode", "size", "list"), 3)}
                return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(), "data": data}
            case 3:
                return {"apiVersion": "v1", "kind": "Namespace", "metadata": {**self.metadata(False), "name": "team-a"}}
        return self.pod()

    # Values and patterns

    def scalar(self) -> Any:
        return self.rng.choice(_SCALARS)

    def leaf_pattern(self, value: Any) -> Any:
        if self.chance(2) and not isinstance(value, (dict, list)):
            return value
        return self.rng.choice(_TERMS) if self.chance(2) else self.scalar()

    def pattern(self, value: Any, depth: int = 0) -> Any:
        """A pattern of the shape of a value: some keys, some anchored, leaves equal or near."""
        if isinstance(value, dict) and value and not self.chance(15):
            made: dict[str, Any] = {}
            for key in self.some(sorted(value), 3) or [self.rng.choice(sorted(value))]:
                inner = self.pattern(value[key], depth + 1)
                sign = self.rng.choice(_ANCHORS) if self.chance(4) else ""
                if sign == "^(" and not (isinstance(inner, list) and inner and isinstance(inner[0], dict)):
                    sign = "=("
                made[f"{sign}{key})" if sign else key] = inner
            if self.chance(6):
                sign = self.rng.choice(("", "=(", "X(", "("))
                key = self.rng.choice(("absent", "image", "name"))
                made[f"{sign}{key})" if sign else key] = self.scalar()
            return made
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self.pattern(e, depth + 1) for e in value[: self.rng.randint(1, 2)] if isinstance(e, dict)]
        if isinstance(value, list):
            return [self.leaf_pattern(None)] if self.chance(2) else self.leaf_pattern(None)
        return self.leaf_pattern(value)

    def merge_patch(self, value: Any, depth: int = 0) -> Any:
        """A strategic merge patch of the shape of a value, with conditions and additions."""
        if isinstance(value, dict) and value:
            made: dict[str, Any] = {}
            for key in self.some(sorted(value), 3) or [self.rng.choice(sorted(value))]:
                if depth == 0 and key in ("apiVersion", "kind"):
                    continue
                sign = self.rng.choice(("(", "+(", "<(")) if self.chance(3) else ""
                inner = (
                    self.leaf_pattern(value[key]) if sign in ("(", "<(") else self.merge_patch(value[key], depth + 1)
                )
                made[f"{sign}{key})" if sign else key] = inner
            if self.chance(4):
                made[self.rng.choice(("extra", "+(extra)"))] = self.scalar()
            return made
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self.merge_patch(e, depth + 1) for e in value[: self.rng.randint(1, 2)] if isinstance(e, dict)]
        return value if self.chance(2) else self.scalar()

    # Queries

    def query(self, sample: dict[str, Any]) -> str:
        """A query that finds something in a sample, by a path and a few steps more."""
        text, value = self._path(sample)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            text, value = self._more(text, value)
        return text

    def _path(self, sample: dict[str, Any]) -> tuple[str, Any]:
        text = ""
        value: Any = sample
        for _ in range(self.rng.randint(2, 7)):
            if isinstance(value, dict) and value:
                key = self.rng.choice(sorted(value))
                if text and self.chance(25):
                    key = "absent"
                text += ("." if text else "") + field(key)
                value = value.get(key)
            elif isinstance(value, list) and value and text:
                step, value = self.rng.choice(
                    (("[0]", value[0]), ("[]", value[0]), ("[*]", value[0]), ("[-1]", value[-1]))
                )
                text += step
            else:
                break
        return text or "@", value

    def _call(self, text: str, value: Any) -> str:
        """A call of a function of policies, with operands that it may take."""
        pick = self.rng.choice
        number = literal(pick((0, 1, 2, 3, 10, -1, 1.5, 2.5)))
        amount = pick((number, *(f"'{q}'" for q in (*res.QUANTITIES, *res.DURATIONS, "1.5Gi", "-1", "0.1"))))
        when = pick(("2024-02-29T23:59:59Z", "2021-01-02T15:04:05-07:00", "2020-12-31T00:00:00Z", "no"))
        if isinstance(value, (dict, list)):
            return pick(
                (f"lookup({text}, {pick((number, literal('web')))})", f"items({text}, 'k', 'v')", f"sum({text})")
            )
        return pick(
            (
                f"{pick(('add', 'subtract', 'multiply', 'divide', 'modulo'))}({pick((text, amount))}, {amount})",
                f"sum([{amount}, {amount}])",
                f"round({pick((text, number))}, {number})",
                f"{pick(('to_upper', 'to_lower', 'to_boolean', 'parse_json', 'parse_yaml', 'base64_encode'))}({text})",
                f"{pick(('md5', 'sha1', 'sha256', 'path_canonicalize', 'base64_decode'))}({text})",
                f"truncate({text}, {number})",
                f"trim({text}, 'nwe')",
                f"trim_prefix({text}, '{pick(('n', 'we', 'gcr.io/'))}')",
                f"replace({text}, 'e', 'EE', {number})",
                f"replace_all({text}, '{pick(('n', 'in', ':'))}', '-')",
                f"{pick(('compare', 'equal_fold'))}({text}, '{pick(('web', 'WEB', 'nginx'))}')",
                f"pattern_match('{pick(('n*', '*:latest', 'w?b'))}', {text})",
                f"regex_match('{pick(('^n', '[a-z]+:', '(we|db)$', '['))}', {text})",
                f"regex_replace_all('{pick(('([a-z])([a-z])', 'n*', ':'))}', {text}, '$2${{1}}-')",
                f"regex_replace_all_literal('{pick(('[a-z]', 'x*'))}', {text}, '$1')",
                f"semver_compare('{pick(_VERSIONS)}', '{pick(_RANGES)}')",
                f"time_add('{when}', '{pick(('1h', '36h', '-90m', '1d'))}')",
                f"{pick(('time_utc', 'time_to_cron'))}('{when}')",
                f"time_diff('{when}', '2024-03-01T00:00:00Z')",
                f"{pick(('time_before', 'time_after'))}('{when}', '2022-01-01T00:00:00Z')",
                f"time_truncate('{when}', '{pick(('1h', '24h', '7m', '0s'))}')",
                f"time_parse('{pick(('2006-01-02', '1'))}', '{pick(('2024-05-06', '1700000000', 'x'))}')",
                f"object_from_lists(['a', 'b'], [{text}])",
            )
        )

    def _more(self, text: str, value: Any) -> tuple[str, Any]:
        other = literal(self.scalar())
        if self.chance(4):
            return self._call(text, value), "a"
        match self.rng.randrange(11):
            case 0:
                return f"{text} | {self.rng.choice(('@', '[0]', 'length(@)', 'to_string(@)'))}", None
            case 1:
                name = self.rng.choice(("length", "type", "to_string", "keys", "values", "not_null", "to_array"))
                return f"{name}({text})", None
            case 2 | 3 | 4:
                return f"{text} || {self.rng.choice((other, '`[]`', chr(39) * 2))}", value
            case 5:
                return f"({text}) {self.rng.choice(('==', '!=', '<', '>='))} {other}", True
            case 6:
                return f"!({text})", True
            case 7:
                return f"({text})[?name == 'web'].image", []
            case 8:
                return f"[{text}, {other}]", [value]
            case 9:
                return f"split(to_string({text}), ':')", ["a"]
        return f"({text}).{self.rng.choice(('name', 'absent', 'data'))}", None

    def variable(self, sample: dict[str, Any]) -> str:
        query = self.query(sample)
        if "request" in sample and self.chance(12):
            inner = self.query(sample)
            query = f"request.object.metadata.{{{{ {inner} }}}}"
        text = "{{ " + query + " }}"
        return text if not self.chance(5) else f"a {text} b"

    def condition(self, sample: dict[str, Any]) -> dict[str, Any]:
        key = self.variable(sample) if not self.chance(5) else self.scalar()
        match self.rng.randrange(5):
            case 0:
                value: Any = self.some((*res.LABEL_VALUES, *res.IMAGES, "we*", "1-5"), 3)
            case 1:
                value = self.variable(sample)
            case 2:
                value = self.rng.choice(("*", "1-5", "?*", '["web", "db"]', "nginx*"))
            case _:
                value = self.scalar()
        made = {"key": key, "operator": self.rng.choice(OPERATORS), "value": value}
        if self.chance(6):
            made["message"] = self.rng.choice(("no", self.variable(sample)))
        return made

    def conditions(self, sample: dict[str, Any]) -> Any:
        def some() -> list[dict[str, Any]]:
            return [self.condition(sample) for _ in range(self.rng.randint(1, 2))]

        match self.rng.randrange(4):
            case 0:
                return some()
            case 1:
                return {"any": some()}
            case 2:
                return {"all": some()}
        return {"any": some(), "all": some()}


def field(name: str) -> str:
    """A field name, quoted where JMESPath asks for it."""
    return name if name and set(name) <= _WORD and not name[0].isdigit() else json.dumps(name)


def literal(value: Any) -> str:
    if isinstance(value, str) and "'" not in value:
        return f"'{value}'"
    return "`" + json.dumps(value).replace("`", "\\`") + "`"
