"""Variables and references in policy texts: the front end that ``{{ }}`` and ``$( )`` go through."""

from compiler.frontends.template.lower import lower_query, lower_text, lower_value, put_in_again, query_at_run_time
from compiler.frontends.template.scope import PLAIN_ROOTS, Entry, Scope
from compiler.frontends.template.split import has_variables

__all__ = [
    "PLAIN_ROOTS",
    "Entry",
    "Scope",
    "has_variables",
    "lower_query",
    "lower_text",
    "lower_value",
    "put_in_again",
    "query_at_run_time",
]
