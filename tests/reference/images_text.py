"""Image references written out in full."""

from __future__ import annotations

from tests.reference.arithmetic import Refusal


def normalized(image: str) -> str:
    """With registry and tag: ``nginx`` becomes ``docker.io/nginx:latest``."""
    if not image or any(c.isspace() for c in image):
        raise Refusal(f"{image} is no image")
    first, slash, _ = image.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    full = image if named else f"docker.io/{image}"
    if "@" not in full and ":" not in full.rpartition("/")[2]:
        full += ":latest"
    return full
