"""Posterior predictive checks: what the model expects to see, and whether what was seen surprises it."""
