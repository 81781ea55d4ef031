"""The registry: what each metric is, and the accumulators that compute it."""
