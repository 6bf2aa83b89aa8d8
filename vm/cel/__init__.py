"""CEL at run time: its values beyond JSON, its function libraries (tables and bodies) and their cost."""
