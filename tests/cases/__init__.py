"""Behaviour as YAML: a policy, resources, and what must come out; see :mod:`tests.cases.loading` for the form."""
