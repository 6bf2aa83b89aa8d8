"""The CEL front end: parse, check, lower."""
