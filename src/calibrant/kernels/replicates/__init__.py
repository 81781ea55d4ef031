"""Replicated data sets drawn from predictions: typed entry points of `loops.replicates`."""
