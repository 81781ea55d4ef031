"""Words and tables from stored records; computes no metric."""
