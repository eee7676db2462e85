"""One claim a file, its mutants beside it."""
