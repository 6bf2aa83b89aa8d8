"""What CEL expressions of each type may look like: the tables that ``fuzz.gen.cel`` draws from.

A template is a text with holes. ``<int>`` is an operand of a type (in parentheses where it has to be), ``<=int>`` an
argument, ``<=bool|v:int>`` one that may also use the variable ``{v}``, an int. Types are words of this file:
``ints``, ``strings``, ``doubles`` and ``dyns`` are lists, ``counts`` and ``texts`` maps from strings, ``maybe_int`` and
``maybe_string`` optional values, ``pod_container`` a container of ``object``.
"""

from __future__ import annotations

from typing import Final

GROUPS: Final = (
    *("standard", "optional", "two_variables", "bindings", "strings", "strings_new", "math", "lists", "sets"),
    *("encoders", "regex", "kubernetes"),
)
"""Parts of the language that may be left out: a judge that does not know them is not asked."""

VARIABLES: Final = {
    "i": "int",
    "j": "int",
    "u": "uint",
    "d": "double",
    "p": "bool",
    "s": "string",
    "t": "string",
    "b": "bytes",
    "l": "list(int)",
    "ls": "list(string)",
    "m": "map(string, int)",
    "ms": "map(string, string)",
    "when": "google.protobuf.Timestamp",
    "wait": "google.protobuf.Duration",
    "x": "dyn",
    "object": "dyn",
}
"""The variables of all expressions, with their types as CEL writes them."""

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "int": ("i", "j"),
    "uint": ("u",),
    "double": ("d",),
    "bool": ("p",),
    "string": ("s", "t"),
    "bytes": ("b",),
    "ints": ("l",),
    "strings": ("ls",),
    "counts": ("m",),
    "texts": ("ms",),
    "ts": ("when",),
    "dur": ("wait",),
    "dyn": ("x",),
}

LEAVES: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int": (
        *("0", "1", "2", "3", "7", "-1", "-3", "10", "100", "0x1F", "9223372036854775807", "-9223372036854775808"),
        *("9007199254740993", "63", "64", "object.spec.replicas", "object.metadata.generation"),
    ),
    "uint": ("0u", "1u", "2u", "7u", "18446744073709551615u", "0xFFu"),
    "double": ("0.0", "-0.0", "0.5", "1.0", "2.5", "-1.5", "1e300", "9007199254740993.0", "1e-320", ".25"),
    "string": (
        *('""', "'a'", "'abc'", "'b'", "'aXbX'", "'日本'", "'\\U0001F600x'", "'é'", "'1'", "'true'", "'nginx:1.25'"),
        *("r'\\d'", "'a,b,,c'", "'\\n\\t'", "'''it's'''", "'1.5'", "object.metadata.name", "object.metadata.namespace"),
        *("object.spec.containers[0].image", "object.metadata.labels.app", "object.kind"),
    ),
    "bytes": ("b''", "b'a'", "b'\\xff\\000'", "b'\\303\\251'", "b'日'"),
    "null": ("null",),
    "ints": ("[]", "[1]", "[1, 2, 3]", "[3, 1, 2, 3]", "[-1, 0]", "object.spec.ports"),
    "doubles": ("[1.5]", "[0.5, -2.0, 0.5]", "[1.0, 2.0]"),
    "strings": ("['a']", "['b', 'a', 'c']", "['', 'a', '']", "object.spec.args", "object.metadata.finalizers"),
    "dyns": ("[1, 'a', null]", "[1, 1u, 1.0]", "object.spec.containers", "[[1], [2, [3]]]", "[true, {}]"),
    "counts": ("{}", "{'a': 1}", "{'a': 1, 'b': 2}", "{'': 0, 'x': -1}"),
    "texts": ("{'a': 'b'}", "object.metadata.labels", "{'app': 'web', 'tier': 'x'}"),
    "ts": (
        *("timestamp('2024-02-29T23:59:59.5Z')", "timestamp('1970-01-01T00:00:00Z')", "timestamp(0)"),
        *("timestamp('9999-12-31T23:59:59Z')", "timestamp('0001-01-01T00:00:00Z')"),
    ),
    "dur": ("duration('0s')", "duration('1h30m')", "duration('-1.5s')", "duration('250ms')", "duration('24h')"),
    "type": ("int", "string", "list", "type", "null_type", "google.protobuf.Timestamp"),
    "dyn": (
        *(
            "object.spec",
            "object.metadata.labels",
            "object.spec.missing",
            "object.spec.containers[0]",
            "null",
            "dyn(1)",
        ),
        *("dyn('a')", "dyn(1u)", "dyn(1.0)", "{'a': 1, 2: 'b'}", "{1u: 1}", "dyn([])", "object.spec.replicas"),
        *("object.status", "object.metadata.labels['app']", "object.spec.flag", "object.spec.ratio"),
    ),
    "pod_container": ("object.spec.containers[0]", "object.spec.containers[1]"),
    "maybe_int": ("optional.none()", "optional.of(1)", "object.spec.?replicas", "[1, 2][?5]", "{'a': 1}[?'a']"),
    "maybe_string": ("optional.of('a')", "object.?metadata.?name", "object.?metadata.?labels[?'app']", "['a'][?0]"),
    "quantity": ("quantity('1Gi')", "quantity('500m')", "quantity('-2')", "quantity('1e3')", "quantity('0')"),
    "ip": ("ip('10.0.0.1')", "ip('::1')", "ip('192.168.0.255')", "ip('2001:db8::')"),
    "cidr": ("cidr('10.0.0.0/8')", "cidr('10.1.2.3/16')", "cidr('2001:db8::/32')", "cidr('0.0.0.0/0')"),
    "url": ("url('https://a.example:8443/p%20q?x=1&x=2&y=')", "url('/path')", "url('http://[::1]/')"),
    "semver": ("semver('1.2.3')", "semver('1.2.3-rc.1+b')", "semver('0.0.1')"),
}

_EQUAL: Final = (
    *("int", "uint", "double", "string", "bytes", "bool", "ints", "strings", "counts", "texts", "ts", "dur", "dyn"),
    *("dyns", "type"),
)
_ORDERED: Final = ("int", "uint", "double", "string", "bytes", "bool", "ts", "dur")
_NUMBERS: Final = ("int", "uint", "double")
_ANY: Final = (*_EQUAL, "null")

TEMPLATES: Final[tuple[tuple[str, str, str], ...]] = (
    # group, type, text
    *(("standard", "bool", f"<{t}> {op} <{t}>") for t in _EQUAL for op in ("==", "!=")),
    *(("standard", "bool", f"<{t}> {op} <{t}>") for t in _ORDERED for op in ("<", "<=", ">", ">=")),
    *(
        ("standard", "bool", f"<{a}> {op} <{b}>")
        for a in ("int", "dyn")
        for b in ("uint", "double")
        for op in ("<", "==")
    ),
    *(("standard", t, f"<bool> ? <{t}> : <{t}>") for t in _EQUAL),
    *(("standard", t, f"<{t}> {op} <{t}>") for t in _NUMBERS for op in ("+", "-", "*", "/")),
    *(("standard", t, f"<{t}> % <{t}>") for t in ("int", "uint")),
    *(("standard", t, f"<{t}> + <{t}>") for t in ("string", "bytes", "ints", "strings", "dyns")),
    *(
        ("standard", "bool", text)
        for text in ("<bool> && <bool>", "<bool> || <bool>", "<bool> && <bool> && <bool>") * 3
    ),
    *(("standard", "bool", text) for text in ("!<bool>", "!<bool> || <bool>", "bool(<=string>)", "bool(<=bool>)")),
    *(
        ("standard", "bool", text)
        for text in (
            *("<int> in <ints>", "<string> in <strings>", "<string> in <counts>", "<string> in <texts>"),
            *("<dyn> in <dyns>", "<string>.contains(<=string>)", "<string>.startsWith(<=string>)"),
            *("<string>.endsWith(<=string>)", "<string>.matches('^[a-z]+$')", "matches(<=string>, '.b?')"),
            *("has(object.spec.replicas)", "has(object.spec.missing)", "has(<dyn>.app)", "has(<texts>.app)"),
            *("<ints>.all({v}, <=bool|v:int>)", "<ints>.exists({v}, <=bool|v:int>)"),
            *("<ints>.exists_one({v}, <=bool|v:int>)", "<strings>.all({v}, <=bool|v:string>)"),
            *("<strings>.exists({v}, <=bool|v:string>)", "<texts>.all({v}, <=bool|v:string>)"),
            *("<dyns>.exists({v}, <=bool|v:dyn>)", "object.spec.containers.all({v}, <=bool|v:pod_container>)"),
            *("object.spec.containers.exists({v}, <=bool|v:pod_container>)", "has(<pod_container>.securityContext)"),
            *("<pod_container>.image.startsWith(<=string>)", "<pod_container>.securityContext.privileged == true"),
            "<ints>.all({v}, <strings>.exists({w}, <=bool|v:int,w:string>))",
        )
    ),
    *(
        ("standard", "int", text)
        for text in (
            *("-<int>", "int(<=double>)", "int(<=uint>)", "int(<=string>)", "int(<=ts>)", "size(<=string>)"),
            *(
                "<string>.size()",
                "size(<=bytes>)",
                "size(<=ints>)",
                "<strings>.size()",
                "size(<=counts>)",
                "<ints>[<=int>]",
            ),
            *("<counts>[<=string>]", "<counts>.a", "<ts>.getFullYear()", "<ts>.getMonth()", "<ts>.getDayOfYear()"),
            *(
                "<ts>.getHours('America/New_York')",
                "<ts>.getMinutes('+05:30')",
                "<ts>.getDayOfWeek()",
                "<ts>.getDate()",
            ),
            *("<ts>.getMilliseconds()", "<dur>.getHours()", "<dur>.getSeconds()", "<dur>.getMilliseconds()"),
            "<ints>.filter({v}, <=bool|v:int>)[0]",
        )
    ),
    *(("standard", "uint", text) for text in ("uint(<=int>)", "uint(<=double>)", "uint(<=string>)")),
    *(("standard", "double", text) for text in ("-<double>", "double(<=int>)", "double(<=uint>)", "double(<=string>)")),
    *(
        ("standard", "string", text)
        for text in (
            *("string(<=int>)", "string(<=uint>)", "string(<=double>)", "string(<=bool>)", "string(<=bytes>)"),
            *("string(<=ts>)", "string(<=dur>)", "<strings>[<=int>]", "<texts>[<=string>]", "<texts>.app"),
            *("<pod_container>.image", "<pod_container>.name", "<strings>.map({v}, <=string|v:string>)[0]"),
        )
    ),
    ("standard", "bytes", "bytes(<=string>)"),
    *(
        ("standard", "ints", text)
        for text in (
            *("[<=int>]", "[<=int>, <=int>]", "<ints>.map({v}, <=int|v:int>)", "<strings>.map({v}, <=int|v:string>)"),
            *("<ints>.filter({v}, <=bool|v:int>)", "<ints>.map({v}, <=bool|v:int>, <=int|v:int>)"),
            "<counts>.map({v}, <=int|v:string>)",
        )
    ),
    *(
        ("standard", "strings", text)
        for text in (
            *("[<=string>]", "[<=string>, <=string>]", "<strings>.filter({v}, <=bool|v:string>)"),
            *("<ints>.map({v}, <=string|v:int>)", "object.spec.containers.map({v}, <=string|v:pod_container>)"),
            "<texts>.map({v}, <=string|v:string>)",
        )
    ),
    *(("standard", "dyns", f"[<={t}>, <=dyn>]") for t in ("int", "string", "ints", "null")),
    ("standard", "dyns", "<dyns>.map({v}, <=dyn|v:dyn>)"),
    ("standard", "dyns", "<dyns>.filter({v}, <=bool|v:dyn>)"),
    *(("standard", "counts", text) for text in ("{<=string>: <=int>}", "{<=string>: <=int>, <=string>: <=int>}")),
    ("standard", "texts", "{<=string>: <=string>}"),
    *(
        ("standard", "ts", text)
        for text in ("<ts> + <dur>", "<ts> - <dur>", "<dur> + <ts>", "timestamp(<=int>)", "timestamp(string(<=ts>))")
    ),
    *(
        ("standard", "dur", text)
        for text in ("<dur> + <dur>", "<dur> - <dur>", "<ts> - <ts>", "duration(string(<=dur>))")
    ),
    *(("standard", "type", f"type(<={t}>)") for t in _ANY),
    *(("standard", "dyn", f"dyn(<={t}>)") for t in _ANY),
    *(
        ("standard", "dyn", text)
        for text in ("<dyns>[<=int>]", "<bool> ? <dyn> : <dyn>", "{<=string>: <=dyn>}", "<dyn>.a")
    ),
    *(("standard", "dyn", text) for text in ("<dyn> + <dyn>", "<dyn> * <dyn>", "<dyn>[<=string>]", "<dyn>[<=int>]")),
    *(
        ("optional", "maybe_int", text)
        for text in (
            *("optional.of(<=int>)", "optional.ofNonZeroValue(<=int>)", "<ints>[?<=int>]", "<counts>[?<=string>]"),
            *("<maybe_int>.or(<=maybe_int>)", "<maybe_int>.optMap({v}, <=int|v:int>)", "<counts>.?a"),
            *("<maybe_int>.optFlatMap({v}, <=maybe_int|v:int>)", "<maybe_string>.optMap({v}, <=int|v:string>)"),
        )
    ),
    *(
        ("optional", "maybe_string", text)
        for text in (
            "optional.of(<=string>)",
            "<texts>[?<=string>]",
            "<texts>.?app",
            "<maybe_string>.or(<=maybe_string>)",
        )
    ),
    *(
        ("optional", "int", text)
        for text in ("<maybe_int>.orValue(<=int>)", "<maybe_int>.value()", "[?<=maybe_int>, <=int>][0]")
    ),
    ("optional", "string", "<maybe_string>.orValue(<=string>)"),
    ("optional", "bool", "<maybe_int>.hasValue()"),
    ("optional", "bool", "<maybe_string> == <maybe_string>"),
    ("optional", "ints", "[?<=maybe_int>, <=int>]"),
    ("optional", "counts", "{?<=string>: <=maybe_int>}"),
    *(
        ("two_variables", "bool", text)
        for text in (
            *("<counts>.all({v}, {w}, <=bool|v:string,w:int>)", "<ints>.exists({v}, {w}, <=bool|v:int,w:int>)"),
            "<texts>.existsOne({v}, {w}, <=bool|v:string,w:string>)",
        )
    ),
    ("two_variables", "ints", "<ints>.transformList({v}, {w}, <=int|v:int,w:int>)"),
    ("two_variables", "ints", "<counts>.transformList({v}, {w}, <=bool|v:string,w:int>, <=int|v:string,w:int>)"),
    ("two_variables", "counts", "<counts>.transformMap({v}, {w}, <=int|v:string,w:int>)"),
    ("two_variables", "counts", "<counts>.transformMap({v}, {w}, <=bool|v:string,w:int>, <=int|v:string,w:int>)"),
    (
        "two_variables",
        "counts",
        "<counts>.transformMapEntry({v}, {w}, {<=string|v:string,w:int>: <=int|v:string,w:int>})",
    ),
    *(
        ("bindings", t, f"cel.bind({{v}}, <={u}>, <={t}|v:{u}>)")
        for t in ("bool", "int")
        for u in ("int", "string", "dyn")
    ),
    *(
        ("strings", "string", text)
        for text in (
            *("<string>.charAt(<=int>)", "<string>.lowerAscii()", "<string>.upperAscii()", "<string>.trim()"),
            *("<string>.replace(<=string>, <=string>)", "<string>.replace(<=string>, <=string>, <=int>)"),
            *("<string>.substring(<=int>)", "<string>.substring(<=int>, <=int>)", "<strings>.join()"),
            *(
                "<strings>.join(<=string>)",
                "'%s-%d'.format([<=string>, <=int>])",
                "'%.3f %x %b'.format([<=double>, <=int>, <=int>])",
            ),
            *("'%s'.format([<=dyn>])", "strings.quote(<=string>)"),
        )
    ),
    *(("strings", "int", f"<string>.{name}(<=string>)") for name in ("indexOf", "lastIndexOf")),
    ("strings", "int", "<string>.indexOf(<=string>, <=int>)"),
    ("strings", "strings", "<string>.split(<=string>)"),
    ("strings", "strings", "<string>.split(<=string>, <=int>)"),
    ("strings_new", "string", "<string>.reverse()"),
    *(("math", t, f"math.{f}(<{t}>, <{t}>)") for t in _NUMBERS for f in ("greatest", "least")),
    *(("math", t, f"math.{f}({f2}(<={t}>))") for t in ("int", "double") for f, f2 in (("abs", "dyn"), ("sign", "dyn"))),
    *(("math", "double", f"math.{f}(<=double>)") for f in ("ceil", "floor", "round", "trunc", "sqrt", "abs")),
    *(("math", "bool", f"math.{f}(<=double>)") for f in ("isNaN", "isInf", "isFinite")),
    *(("math", t, f"math.{f}(<={t}>, <={t}>)") for t in ("int", "uint") for f in ("bitAnd", "bitOr", "bitXor")),
    *(("math", t, f"math.{f}(<={t}>, <=int>)") for t in ("int", "uint") for f in ("bitShiftLeft", "bitShiftRight")),
    *(("math", t, f"math.bitNot(<={t}>)") for t in ("int", "uint")),
    *(
        ("lists", t, f"<{t}>{text}")
        for t in ("ints", "strings")
        for text in (".distinct()", ".reverse()", ".sort()", ".slice(<=int>, <=int>)")
    ),
    ("lists", "ints", "lists.range(<=int> % 9)"),
    ("lists", "dyns", "<dyns>.flatten()"),
    ("lists", "strings", "<strings>.sortBy({v}, <=int|v:string>)"),
    ("lists", "ints", "<ints>.sortBy({v}, <=int|v:int>)"),
    *(
        ("sets", "bool", f"sets.{f}(<={t}>, <={t}>)")
        for t in ("ints", "strings")
        for f in ("contains", "equivalent", "intersects")
    ),
    ("regex", "string", "regex.replace(<=string>, '([a-c])', '[\\\\1]')"),
    ("regex", "string", "regex.replace(<=string>, 'a', '_', <=int>)"),
    ("regex", "maybe_string", "regex.extract(<=string>, 'a(b?)')"),
    ("regex", "strings", "regex.extractAll(<=string>, '[a-z]')"),
    ("encoders", "string", "base64.encode(<=bytes>)"),
    ("encoders", "bytes", "base64.decode(<=string>)"),
    *(
        ("kubernetes", "bool", text)
        for text in (
            *("isQuantity(<=string>)", "<quantity>.isGreaterThan(<=quantity>)", "<quantity>.isLessThan(<=quantity>)"),
            *("<quantity> == <quantity>", "<quantity>.isInteger()", "isIP(<=string>)", "<ip>.isLoopback()"),
            *("<ip>.isUnspecified()", "<ip>.isGlobalUnicast()", "<ip>.isLinkLocalUnicast()", "<ip> == <ip>"),
            *(
                "ip.isCanonical('2001:DB8::')",
                "isCIDR(<=string>)",
                "<cidr>.containsIP(<=ip>)",
                "<cidr>.containsCIDR(<=cidr>)",
            ),
            *(
                "<cidr>.containsIP('10.1.2.3')",
                "isURL(<=string>)",
                "isSemver(<=string>)",
                "<semver>.isLessThan(<=semver>)",
            ),
            *("<semver>.isGreaterThan(<=semver>)", "<ints>.isSorted()", "<strings>.isSorted()"),
            *(
                "format.dns1123Label().validate(<=string>).hasValue()",
                "!format.named('uuid').value().validate(<=string>).hasValue()",
            ),
        )
    ),
    *(
        ("kubernetes", "int", text)
        for text in (
            *("<quantity>.compareTo(<=quantity>)", "sign(<=quantity>)", "<quantity>.asInteger()", "<ip>.family()"),
            *("<cidr>.prefixLength()", "<semver>.major()", "<semver>.minor()", "<semver>.patch()"),
            *(
                "<semver>.compareTo(<=semver>)",
                "<ints>.sum()",
                "<ints>.min()",
                "<ints>.max()",
                "<ints>.indexOf(<=int>)",
            ),
            "<strings>.lastIndexOf(<=string>)",
        )
    ),
    ("kubernetes", "double", "<quantity>.asApproximateFloat()"),
    ("kubernetes", "double", "<doubles>.sum()"),
    *(
        ("kubernetes", "string", text)
        for text in (
            *(
                "<url>.getScheme()",
                "<url>.getHost()",
                "<url>.getHostname()",
                "<url>.getPort()",
                "<url>.getEscapedPath()",
            ),
            *("string(<=ip>)", "string(<=cidr>)", "<string>.find('[a-c]+')", "<strings>.min()"),
        )
    ),
    ("kubernetes", "strings", "<string>.findAll('[a-z]')"),
    ("kubernetes", "strings", "<string>.findAll('.', <=int>)"),
    ("kubernetes", "strings", "<url>.getQuery()['x']"),
    ("kubernetes", "quantity", "<quantity>.add(<=quantity>)"),
    ("kubernetes", "quantity", "<quantity>.sub(<=int>)"),
    ("kubernetes", "quantity", "quantity(<=string>)"),
    ("kubernetes", "ip", "<cidr>.ip()"),
    ("kubernetes", "cidr", "<cidr>.masked()"),
)
