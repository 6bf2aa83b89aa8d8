"""One property a module; see ``fuzz/README.md`` for the table."""
