"""Runs the public conformance data and counts strictly: ``python -m tests.conformance``."""
