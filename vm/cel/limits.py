"""How large a result of the extension libraries may grow: bodies that could make more answer an ``Err`` instead.

Above the API server's own reach: there a call costs at least one unit for ten characters or for one item, and an
expression may cost 1,000,000 units.
"""

from __future__ import annotations

from typing import Final

from vm.values import Err

MAX_TEXT: Final = 4 << 20
"""Characters of a text."""
MAX_ITEMS: Final = 1 << 20
"""Elements of a list."""

TOO_LONG: Final = Err("argument", f"the result is longer than {MAX_TEXT} characters")
TOO_MANY: Final = Err("argument", f"the result has more than {MAX_ITEMS} elements")
