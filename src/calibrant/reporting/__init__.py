"""Pages made from stored evaluations; nothing is computed here."""
