"""Answers of a cluster in a file: written by ``--record``, answered from by ``--replay``.

A recording is a JSON document of kind ``Recording`` with a list ``calls``; each call has ``kind`` (of
``vm.host.HOST_CALLS``), ``scope`` (the namespace of a namespaced policy), ``ask`` (the payload without who asked), and
``answer`` or ``error``. Image data (``imagedata``) may be written by hand: nothing here reads a registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from vm.host import HostCall
from vm.intrinsics.text import json_text
from vm.values import MISSING, Err, Value

API_VERSION: Final = "cli.thesmos.dev/v1alpha1"
KIND: Final = "Recording"


class RecordingError(Exception):
    """A document that is no recording; ``str`` says why."""


def asked(call: HostCall) -> dict[str, Any]:
    """The payload of a call without who asked."""
    return {key: value for key, value in call.payload.items() if key != "for"}


class Recording:
    """Calls and their answers; the last answer to a call counts."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, str | None], tuple[dict[str, Any], Value]] = {}

    @classmethod
    def read(cls, document: Any) -> Recording:
        """A recording of its decoded document. Raises :class:`RecordingError`."""
        if type(document) is not dict or document.get("kind") != KIND:
            raise RecordingError(f"is no {KIND}")
        calls = document.get("calls")
        if type(calls) is not list:
            raise RecordingError("calls is no list")
        made = cls()
        for i, entry in enumerate(calls):
            if type(entry) is not dict or type(entry.get("kind")) is not str or type(entry.get("ask")) is not dict:
                raise RecordingError(f"calls[{i}] has no kind and ask")
            if "answer" not in entry and type(entry.get("error")) is not str:
                raise RecordingError(f"calls[{i}] has neither an answer nor an error")
            answer = entry["answer"] if "answer" in entry else Err("host", entry["error"])
            made.add(HostCall(entry["kind"], entry["ask"], entry.get("scope")), answer)
        return made

    def add(self, call: HostCall, answer: Value) -> None:
        payload = asked(call)
        self._calls[call.kind, json_text(payload), call.scope] = payload, answer

    def find(self, call: HostCall) -> Value:
        """The answer to a call, MISSING when it is not in the recording. A scope that is not written is any."""
        text = json_text(asked(call))
        found = self._calls.get((call.kind, text, call.scope)) or self._calls.get((call.kind, text, None))
        return MISSING if found is None else found[1]

    def document(self) -> dict[str, Any]:
        """The recording as it is written, sorted, so that two of the same cluster can be compared."""
        calls: list[Mapping[str, Any]] = []
        for (kind, _, scope), (payload, answer) in sorted(self._calls.items(), key=_order):
            entry: dict[str, Any] = {"kind": kind, **({"scope": scope} if scope is not None else {}), "ask": payload}
            entry |= {"error": answer.text} if type(answer) is Err else {"answer": answer}
            calls.append(entry)
        return {"apiVersion": API_VERSION, "kind": KIND, "calls": calls}

    def text(self) -> bytes:
        return orjson.dumps(self.document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _order(item: tuple[tuple[str, str, str | None], Any]) -> tuple[str, str, str]:
    kind, text, scope = item[0]
    return kind, text, scope or ""
