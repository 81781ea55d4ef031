"""What a verdict is made of: one file a kind of result, each reading stored numbers and computing none."""
