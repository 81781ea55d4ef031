"""HTML reports and figures of stored evaluations; computes no metrics."""
