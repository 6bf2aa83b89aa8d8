"""Variables and references in policy texts: the front end that ``{{ }}`` and ``$( )`` go through."""

from compiler.frontends.template.lower import lower_query, lower_text, lower_value
from compiler.frontends.template.scope import PLAIN_ROOTS, Scope
from compiler.frontends.template.split import has_variables

__all__ = ["PLAIN_ROOTS", "Scope", "has_variables", "lower_query", "lower_text", "lower_value"]
