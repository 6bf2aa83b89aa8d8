"""Changing JSON documents: JSON patch, differences and strategic merge. Pure functions; no input is ever changed."""
