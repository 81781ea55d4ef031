"""Accumulators: mergeable states that metrics are computed from."""
