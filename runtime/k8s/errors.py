"""What can go wrong with an API server, as three exceptions; :mod:`runtime.k8s.client` raises nothing else."""

from __future__ import annotations

from typing import Any


class ApiProblem(Exception):
    """The API server answered with an error. ``code`` is the HTTP status, ``reason`` the word of its Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message or reason or f"status {code}")
        self.code = code
        self.reason = reason

    @property
    def missing(self) -> bool:
        return self.code == 404

    @property
    def conflict(self) -> bool:
        return self.code == 409

    @property
    def passing(self) -> bool:
        """Whether the same request may work a moment later: the API server is busy, or was overtaken by another
        writer."""
        return self.code >= 500 or self.code in (409, 429)

    @classmethod
    def of_status(cls, code: int, status: Any) -> ApiProblem:
        """From the decoded body of an error answer, whatever it is."""
        if isinstance(status, dict):
            return cls(code, str(status.get("reason") or ""), str(status.get("message") or ""))
        return cls(code, "", str(status)[:300])


class Expired(ApiProblem):
    """410 Gone: a watch's place in history is no longer kept, list again."""


class Unreachable(Exception):
    """No answer: the API server is away, the network is, or the connection broke."""
