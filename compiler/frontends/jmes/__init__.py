"""JMESPath: text to tree to IR (semantics §7)."""
