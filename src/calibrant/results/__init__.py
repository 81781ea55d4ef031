"""Stored records: the results of evaluations, checks, comparisons and recalibrations, and their JSON."""
