"""Evaluation logs of language models as other tools write them: inspect_ai, lm-evaluation-harness, HELM."""
