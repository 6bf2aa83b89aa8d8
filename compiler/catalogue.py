"""The closed table of diagnostic codes.

``CODES`` maps each code to its severity, its title and what it means for the person who wrote the policy.
``DIAGNOSTICS.md`` is made of it (``python -m compiler.catalogue``), and a test holds the two together. Codes never
change their meaning; a code that falls out of use is not given again. T01 YAML, T02 structure, T03 rules of a policy,
T04 the guide's forms, T05 deprecated forms, T06 autogen, T09 not built yet, T11 variables and queries, T12 patterns,
T14 match and what a rule can reach, T143 advice, T16 messages, T20 the compiler's limits.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note", "advice"]
"""``advice`` is about style; ``thesmos lint`` alone gives it."""


@dataclass(frozen=True, slots=True)
class Code:
    severity: Severity
    title: str
    explanation: str


def _e(title: str, explanation: str) -> Code:
    return Code("error", title, explanation)


def _w(title: str, explanation: str) -> Code:
    return Code("warning", title, explanation)


def _n(title: str, explanation: str) -> Code:
    return Code("note", title, explanation)


def _a(title: str, explanation: str) -> Code:
    return Code("advice", title, explanation)


CODES: Final[dict[str, Code]] = {
    # T01: the YAML itself
    "T0101": _e("not YAML", "The text breaks a rule of YAML; the caret stands where the parser gave up."),
    "T0102": _e(
        "key given twice", "A map has the same key twice. One of the two would be lost, so both lines are named."
    ),
    "T0103": _e("key is no text", "Keys of Kubernetes objects are texts; a list, a map or null cannot be one."),
    "T0104": _e("unknown alias", "An alias (`*name`) has no anchor (`&name`) before it in the same document."),
    "T0105": _e("alias holds itself", "An alias stands inside the very value it names, which would never end."),
    "T0106": _e("aliases grow too large", "The aliases of the document unfold to more values than a policy may have."),
    "T0107": _e("nested too deeply", "Maps and lists are nested deeper than a Kubernetes object may be."),
    "T0108": _e("bad merge key", "`<<` takes a map, or a list of maps, most often by alias."),
    "T0109": _e("character not allowed", "The text holds a character that YAML does not allow, or is not UTF-8."),
    "T0110": _e("not an object", "A document must be a map with `apiVersion`, `kind` and `metadata`."),
    "T0111": _e("tag not allowed", "A plain value that begins with `!` is a YAML tag, not a text: put it in quotes."),
    "T0112": _e(
        "value does not fit its tag",
        "The text cannot be read as what its tag says, or has no JSON form (`.inf`, `.nan`).",
    ),
    # T02: structure
    "T0201": _e(
        "unknown field", "The kind has no such field. It would be dropped silently by some tools; here it is an error."
    ),
    "T0202": _e("wrong type", "The field takes a value of another type."),
    "T0203": _e("field missing", "A field that must be there is missing or empty."),
    "T0204": _e("value not allowed", "The field takes one of a fixed set of values, or a value within bounds."),
    "T0205": _e("unknown apiVersion", "The kind is known, but not in this version."),
    "T0206": _e("not a policy", "The document is of a kind that is no policy and no exception."),
    "T0207": _e("fields exclude each other", "Two fields stand side by side of which only one may be given."),
    "T0208": _e(
        "bad name", "A name of an object must be a DNS name, and a namespaced object has a namespace of that form."
    ),
    # T03: what a policy may say
    "T0301": _e("rule name given twice", "Results are reported by rule name, so each name may stand once in a policy."),
    "T0302": _e("rule does nothing", "A rule needs one of `validate`, `mutate`, `generate`, `verifyImages`."),
    "T0303": _e("rule does several things", "A rule has one action; make a rule of each."),
    "T0304": _e("rule name too long", "A rule name has at most 63 characters."),
    "T0305": _e("rule matches nothing", "A rule needs a `match` that names at least one kind of resource."),
    "T0306": _e("empty filter", "A filter that asks for nothing would match everything by accident."),
    "T0307": _e("kinds missing", "A match without kinds would be asked for every object of the cluster."),
    "T0308": _e(
        "user info in background",
        "Background scans have no user, so roles, subjects and user variables need `background: false`.",
    ),
    "T0309": _e(
        "wildcard kind",
        "A rule for all kinds (`*`) can only look at metadata, stands alone in `kinds` and needs `background: false`.",
    ),
    "T0310": _e(
        "subresource in background", "Background scans read no subresources; such kinds need `background: false`."
    ),
    "T0311": _e(
        "variable not allowed here", "Match, exclude, names and JSON patch paths are read before variables are known."
    ),
    "T0312": _e("unknown operator", "Conditions know a fixed set of operators."),
    "T0313": _e("unknown operation", "Operations are CREATE, UPDATE, DELETE and CONNECT."),
    "T0314": _e(
        "bad JSON patch", "A JSON patch is a list of operations, each with `op` and a `path` that begins with `/`."
    ),
    "T0315": _e(
        "validate is empty", "`validate` needs one of `pattern`, `anyPattern`, `deny`, or another kind of check."
    ),
    "T0316": _e("validate says several things", "`validate` takes one kind of check; make a rule of each."),
    "T0317": _e("mutate is empty", "`mutate` needs `patchStrategicMerge` or `patchesJson6902`."),
    "T0318": _e("mutate says several things", "`mutate` takes one kind of patch; make a rule of each."),
    "T0319": _e(
        "policy never runs", "With `admission: false` and `background: false` nothing would evaluate the policy."
    ),
    "T0320": _e("overrides conflict", "One namespace is given two failure actions by overrides that both name it."),
    "T0321": _e("condition is not complete", "A condition has a `key`, an `operator` and a `value`."),
    "T0322": _e(
        "bad selector",
        "A label selector has `matchLabels` and `matchExpressions` with `In`, `NotIn`, `Exists` or `DoesNotExist`.",
    ),
    "T0323": _e("policy name too long", "A policy name has at most 63 characters, since labels and webhooks carry it."),
    "T0324": _n("exclude never holds", "All parts of one exclude must hold together with the match, and these cannot."),
    "T0325": _e("policy name given twice", "Two policies of one kind and namespace have the same name."),
    "T0326": _e("bad subject", "A subject is a User, a Group or a ServiceAccount; the last needs a namespace."),
    # T04: forms of the guide
    "T0401": _n("`validation` for `validate`", "Accepted; Kyverno's name of the field is `validate`."),
    "T0402": _n("`operations` beside `resources`", "Accepted; in Kyverno `operations` stand inside `resources`."),
    "T0403": _n("`excludeResources`", "Accepted; in Kyverno an `exclude` block says the same."),
    "T0404": _n("`labels` in a filter", "Accepted; in Kyverno `selector.matchLabels` says the same."),
    "T0405": _n("lower-case action", "Accepted; Kyverno writes `Audit` and `Enforce`."),
    "T0406": _w(
        "namespace on a cluster-wide policy", "Ignored; a ClusterPolicy has no namespace and the API server drops it."
    ),
    "T0407": _n("exception by rules", "Accepted; in Kyverno's later versions `spec.exceptions` name policy and rules."),
    # T05: deprecated forms
    "T0501": _w("deprecated operator", "The operator still works; a newer one says the same more clearly."),
    "T0502": _w("deprecated field", "The field still works; a newer one takes its place."),
    "T0503": _w("field without effect", "The field is accepted for the sake of old policies and does nothing."),
    # T06: autogen
    "T0601": _w(
        "no controller", "The annotation for autogen is split at commas only; a name with a space is no controller."
    ),
    # T13: parts of rules
    "T1300": _e("loop that checks nothing", "A loop needs one of `pattern`, `anyPattern`, `deny` and `foreach`."),
    "T1301": _e("loop of several checks", "A loop takes one kind of check; make a loop of each over the same list."),
    "T1302": _e("loops too deep", "At most ten loops stand within one another."),
    "T1303": _e("scope of no map", "With `elementScope: true` patterns look at the elements, which must be maps."),
    "T1304": _w("scope without a pattern", "`elementScope` says what patterns look at; `deny` and loops use none."),
    "T1310": _e(
        "context entry of no kind, or of several",
        "An entry of `context` says in one way where its value comes from: `variable`, `configMap`, `apiCall`, "
        "`globalReference` or `imageRegistry`.",
    ),
    "T1311": _e(
        "name of a context entry",
        "The name is one that every rule has (`request`, `element`, `images`, `target`, …), or cannot be named by a "
        "query.",
    ),
    "T1312": _w(
        "context entry given twice",
        "Of two entries of one name the later counts. It may read the earlier one; where it does not, the earlier one "
        "is of no use.",
    ),
    "T1313": _e("variable without a value", "A `variable` needs a `value`, a `jmesPath`, or at least a `default`."),
    "T1314": _e(
        "call to nowhere, or to two places", "An `apiCall` asks the API server (`urlPath`) or a `service`, one of them."
    ),
    "T1315": _w("data of a GET", "`data` is the body of a POST; a GET has none."),
    "T1316": _e(
        "namespaced policy reads outside its namespace",
        "A `Policy` reads ConfigMaps of its own namespace, calls paths below it, and reads no global context: whoever "
        "may write policies in one namespace would else read all others.",
    ),
    "T1317": _e("path that cannot be called", "The `urlPath` must be a path of the API server, read in one way only."),
    "T1318": _w(
        "namespaced policy calls a service",
        "Calls of services by namespaced policies are off unless `--allowHTTPInNamespacedPolicies` is given, since "
        "their writer would choose what the webhook connects to.",
    ),
    "T1320": _e(
        "global context entry", "A GlobalContextEntry has one source of data, and what it says of it must be of use."
    ),
    "T1321": _e("name of a projection", "Projections have names of their own, other than that of their entry."),
    "T1330": _e("loops too deep", "At most ten loops of a mutation may stand within one another."),
    "T1331": _e(
        "loop that changes nothing",
        "An element of a loop needs exactly one of `patchStrategicMerge`, `patchesJson6902` and `foreach`.",
    ),
    "T1332": _w(
        "removal by index from the front",
        "Each removal moves the elements behind it, so that the next index names another: set `order: Descending`.",
    ),
    "T1333": _e("target without a kind", "A target needs `apiVersion` and `kind`."),
    "T1334": _w("target by uid alone", "A `uid` without a `name` is looked for among all objects of the kind."),
    "T1335": _e(
        "target in another namespace", "A namespaced policy changes objects of its own namespace and no others."
    ),
    "T1340": _e(
        "control of another level",
        "The excluded control belongs to level `restricted`, so that a rule of level `baseline` never asks for it.",
    ),
    "T1341": _e(
        "images of an exclusion",
        "Controls of containers are excluded for images, which must be named; controls of the Pod itself have none.",
    ),
    "T1342": _e(
        "restrictedField and values",
        "An exclusion of certain values names both the field and the values, or neither.",
    ),
    "T1343": _w(
        "restrictedField of another control",
        "No check of the control looks at this field, so that the exclusion never applies.",
    ),
    "T1344": _w(
        "level privileged",
        "Level `privileged` allows everything in Kubernetes, but Kyverno runs the checks of all levels for it, and so "
        "does Thesmos.",
    ),
    "T1345": _w(
        "exception without the rules of autogen",
        "An exception names computed rules: what autogen makes of a rule for controllers has a name of its own.",
    ),
    "T1346": _e("image extractor without a path", "The path of an image extractor names the fields down to an image."),
    "T1347": _w(
        "podSecurity of a kind without Pods",
        "The rule matches a kind that makes no Pods: for its objects the rule is an error, as in Kyverno.",
    ),
    # T09: not built yet
    "T0901": _e(
        "not built yet",
        "This part of the language is known but not built yet; the policy is refused rather than run by halves.",
    ),
    # T11: variables and queries
    "T1101": _e("bad query", "The text between `{{` and `}}` is no JMESPath query."),
    "T1102": _e("unknown function", "A query calls a function that is not there."),
    "T1103": _e("wrong number of arguments", "A function is called with more or fewer arguments than it takes."),
    "T1104": _e("unknown variable", "A variable begins with a name that nothing gives."),
    "T1105": _e(
        "wrong argument", "A function that takes an expression (`&…`) is given a value, or the other way round."
    ),
    "T1106": _e("bad reference", "A `$( )` reference names a place that is not there or that leads back to itself."),
    "T1107": _w("variable not closed", "`{{` has no `}}` and stays in the text as it is."),
    # T12: patterns
    "T1202": _e("bad anchor", "The anchor is not known or stands where it has no meaning."),
    "T1203": _e("empty list pattern", "A list pattern needs an element to compare with."),
    "T1204": _e(
        "existence anchor without list",
        "`^( )` asks that some element of a list matches, so its value is a list of maps.",
    ),
    # T121: CEL expressions
    "T1210": _e("not CEL", "The expression breaks the grammar of CEL; the caret stands where the parser gave up."),
    "T1211": _e("undeclared reference", "A variable, function or type that nothing declares."),
    "T1212": _e("no overload", "A function or operator is given values of types that it does not take."),
    "T1213": _e("undefined field", "The API server declares the fields of this object, and this is none of them."),
    "T1214": _e("wrong type", "A value of another type must stand here."),
    "T1215": _e("bad constant", "A text that is to be a duration, a timestamp or a regular expression, and is none."),
    "T1216": _e("expression too large", "The expression is longer or nested deeper than CEL allows."),
    "T1217": _w(
        "does not fit the schema",
        "By the schema of the kinds that the rule matches, the value has no such field or another type. The API server"
        " does not look at schemas here, so the expression stands, and will most likely fail.",
    ),
    "T1218": _w("always the same", "By the schema, the compared values have different types and can never be equal."),
    "T1219": _n(
        "quantities",
        "By the schema, the values are quantities, so `500m` and `0.5` are equal and `8` is less than `16`. Plain CEL"
        " compares them as texts, as `--cel-strict` does.",
    ),
    "T1230": _w(
        "no such field",
        "None of the kinds that the rule matches has the field, so a pattern never finds it and a patch is refused or"
        " dropped by the API server.",
    ),
    "T1231": _w(
        "wrong shape",
        "The pattern has a map, a list or a single value where the kind has another of them: it can never match.",
    ),
    "T1232": _e(
        "bad definition",
        "A CustomResourceDefinition of `--crd` names its group, its kind and its plural, and its versions.",
    ),
    # T124: the parts of a policy that hold CEL
    "T1240": _e("cel checks nothing", "`validate.cel` needs `expressions` or `auditAnnotations`."),
    "T1241": _e("bad variable name", "A variable is named in expressions as `variables.NAME`: a CEL identifier."),
    "T1242": _e(
        "name given twice", "Variables, conditions and audit annotations have names of their own in their list."
    ),
    "T1243": _e("bad condition name", "Conditions and audit annotations have qualified names, as Kubernetes asks."),
    "T1244": _e("expression is empty", "An expression has a text; one of white space says nothing."),
    "T1245": _e(
        "parameters not complete", "`paramKind` and `paramRef` stand together, and `paramRef` names parameters."
    ),
    "T1246": _e("too many conditions", "Kubernetes sets bounds to what a policy asks; more is refused."),
    "T1247": _e("celPreconditions without cel", "Other rules have `preconditions`; these are for `validate.cel`."),
    "T1248": _e("parameters of another namespace", "A namespaced policy reads nothing outside its namespace."),
    "T1249": _e("wrong result type", "The expression gives a value of another type than its place asks for."),
    # T126: the API server's own policies
    "T1260": _w(
        "binding without its policy", "The policy that the binding names is not given with it; it does nothing."
    ),
    "T1261": _w(
        "no such resource",
        "No kind is known whose resource has this name in the groups and versions. Kinds that usually have the plural"
        " are matched.",
    ),
    "T1262": _n(
        "parameters as a list",
        "An expression reads `params.items`. The reference's command line hands all parameters to one evaluation, the"
        " API server evaluates once for each.",
    ),
    # T127: what expressions may cost
    "T1270": _e(
        "expression too dear",
        "An expression may cost 1,000,000 of the API server's units when it runs. What it may cost is estimated before:"
        " a list or map that no schema bounds counts as 24 elements, a text as 64 characters.",
    ),
    "T1271": _e(
        "rule too dear",
        "All expressions of a rule, its variables and messages too, may cost 10,000,000 units together.",
    ),
    # T135: generate and cleanup
    "T1350": _e("data is no map", "`data` is the body of the object, or one variable that gives it."),
    "T1351": _n(
        "apiVersion found from the kind", "The target names its kind alone; built-in kinds come before those of CRDs."
    ),
    "T1352": _e(
        "target without a kind",
        "A target names one kind, with its `apiVersion` where the kind alone does not say which is meant.",
    ),
    "T1353": _e(
        "several ways of making a target",
        "A target is made of `data`, or copied by `clone` or `cloneList`. Sources of `cloneList` bring their own names"
        " and kinds, which all have a namespace or all have none.",
    ),
    "T1354": _e("target without a name", "An object that is made, and one that is copied, must be named."),
    "T1355": _w(
        "namespace of a cluster-wide kind",
        "Objects of the kind have no namespace; the one that is written is left out.",
    ),
    "T1356": _e(
        "target without a namespace",
        "Objects of the kind stand in a namespace, which must be named; or they stand in none, and"
        " are not looked for in one.",
    ),
    "T1357": _w(
        "target is the trigger", "The object to make is the one that sets the rule off, so that nothing is ever made."
    ),
    "T1358": _e(
        "target outside the namespace", "A policy of a namespace makes, copies and reads objects of its own alone."
    ),
    "T1359": _n(
        "bare data", "None of the keys is a part of an object's body: they are the `data` of the ConfigMap or Secret."
    ),
    "T1360": _e(
        "bad schedule",
        "A schedule is a cron text of five fields: minute, hour, day of the month, month, day of the week.",
    ),
    "T1361": _n(
        "cleanup in a rule", "The standard form is a policy of its own, CleanupPolicy or ClusterCleanupPolicy."
    ),
    "T1362": _e(
        "user in a cleanup policy", "Nobody makes a request when the clock does: roles and subjects never match."
    ),
    "T1363": _e("context of a cleanup policy", "The reference takes `variable`, `apiCall` and `globalReference` here."),
    "T1364": _e("cleanup of nothing", "`removeResources` lists kinds, each one kind without wildcards."),
    "T1365": _e(
        "generateExistingOnPolicyUpdate", "The field is of older versions; `generateExisting` of a rule is the newer."
    ),
    # T14: match
    "T1401": _e(
        "bad kind selector",
        "A kind is `Kind`, `version/Kind`, `group/version/Kind`, each with an optional `/subresource`.",
    ),
    "T1402": _w(
        "unknown kind",
        "Nothing is known of the kind, and it looks like one that is known, or its group has another; the rule would "
        "match nothing.",
    ),
    "T1403": _e(
        "exclude takes all", "Whatever the match of the rule selects is excluded again, so that the rule never applies."
    ),
    "T1404": _w(
        "match holds for nothing",
        "Parts of a match, or of an exclude, contradict each other: no object meets them together.",
    ),
    "T1405": _w(
        "no value can meet the pattern",
        "The schema gives the field another type, or a fixed set of values, and none of them meets the pattern.",
    ),
    "T1406": _w("pattern contradicts itself", "The parts joined by `&`, or the ends of a range, leave no value."),
    "T1407": _e(
        "label or annotation is no text",
        "Labels and annotations are texts in Kubernetes; a pattern or an object with a number, a boolean or null there "
        "is refused.",
    ),
    "T1408": _w(
        "rule never reached",
        "With `applyRules: One` the first rule with a result ends the policy, and an earlier rule always has one.",
    ),
    "T1409": _w(
        "pattern for DELETE", "Patterns look at the new object, and what is deleted has none: the rule never applies."
    ),
    "T1410": _w(
        "rules set each other off",
        "A generate rule makes an object that sets off a rule which again leads to the first: in a cluster they would "
        "go on for ever.",
    ),
    "T1411": _e(
        "generate rule changed",
        "Of a generate rule that is in force, only the target and its data may change; for anything else make a new "
        "rule.",
    ),
    "T1412": _w(
        "target of a generate rule changed",
        "What was generated for the old target is left as it is and no longer kept in step.",
    ),
    "T1413": _w("precondition never holds", "Conditions that must hold together contradict each other or the match."),
    # T143: advice
    "T1430": _a(
        "unrelated rules", "A policy of rules that have nothing in common is hard to exempt from and to report on."
    ),
    "T1431": _a(
        "match of all kinds", "A rule for every kind is asked for each request of the cluster, Leases and Events too."
    ),
    "T1432": _a("message says nothing", "The message does not tell users what to mend."),
    "T1433": _a("rule without a message", "Users see the rule's name and a path alone, not what is wanted of them."),
    "T1434": _a(
        "required list that most lack",
        "The pattern asks that the list is there, and most objects have none, so that they fail.",
    ),
    "T1435": _a(
        "mutation overwrites",
        "The patch sets the field whatever users have written there; `+( )` sets it only where it is missing.",
    ),
    "T1436": _a("JSON patch of Pods", "Autogen makes no rules for pod controllers where a policy has a JSON patch."),
    "T1437": _a(
        "replicas without scale", "`kubectl scale` changes the subresource `scale`, which the rule does not see."
    ),
    "T1438": _a("variable that may be missing", "Where the label or annotation is missing, the rule ends as an error."),
    "T1439": _a("rule given twice", "Another rule of the policy checks the same of the same resources."),
    "T1440": _a(
        "match without any or all",
        "`match` and `exclude` take their filters under `any` or `all`; Kyverno is about to give up the direct form.",
    ),
    # T16: messages
    "T1601": _w("message has no text", "The message is empty, users will not know what to mend."),
    # T20: limits
    "T2001": _e("too large", "The policy needs more of something than the bytecode allows."),
    "T2002": _e("compiler error", "The compiler met a state it should not; the policy is refused. Please report it."),
}


def document() -> str:
    """The text of ``DIAGNOSTICS.md``."""
    lines = [
        "# Diagnostics",
        "",
        "Made from `compiler/catalogue.py` by `python -m compiler.catalogue`; a test compares the two.",
        "",
        "A diagnostic reads `file:line:column: severity[code]: message`, shows the line with a caret, and says what",
        "was expected and how to mend it. Texts are lower case and without a full stop. An error refuses the policy;",
        "a warning becomes an error with `--strict`; a note names the standard form of what is accepted; advice is",
        "about style, and only `thesmos lint` gives it. `thesmos explain CODE` shows an example of each and its mend.",
        "",
        "| code | severity | title | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| {code} | {c.severity} | {c.title} | {c.explanation} |" for code, c in CODES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
