"""An evaluator of ClusterPolicy and Policy rules written straight from the semantics document: slow and obvious.

It judges the product, so it shares no code with it: nothing of ``compiler`` or ``vm`` is imported here. Each module
holds one chapter. Texts of errors are not reproduced to the letter where a chapter does not give them; statuses
always are.
"""

from tests.reference.evaluate import Result, evaluate

__all__ = ["Result", "evaluate"]
