"""The parts that rule messages are put together from at run time: error texts, sentences, joined condition messages;
and documents that are texts until then.

Called by the message code of compiled rules, which runs only when a rule did not simply pass.
"""

from __future__ import annotations

from vm.fuel import CHUNK
from vm.host import Imports, Meter
from vm.values import Err, Value


def error_text(v: Value) -> str:
    """What an error value says to a person; empty for any other value."""
    return v.text if type(v) is Err else ""


def error_path(v: Value) -> str:
    """Where in the resource an error value points; empty for any other value."""
    return v.path if type(v) is Err else ""


def sentence(text: str) -> str:
    """The text, with a full stop when it ends without one."""
    return text if text.endswith(".") else text + "."


def join_texts(meter: Meter, parts: list[Value], separator: str) -> str:
    """The texts of a list that are not empty, joined; the length of the result is paid for before it is made."""
    texts = [part for part in parts if type(part) is str and part]
    meter.charge((len(parts) + len(separator) * len(texts) + sum(map(len, texts))) >> CHUNK)
    return separator.join(texts)


def document(imports: Imports, text: str) -> Value:
    """The value of a YAML or JSON text, or an ``Err``: a JSON patch whose variables have just been put in."""
    return imports.yaml(text)
