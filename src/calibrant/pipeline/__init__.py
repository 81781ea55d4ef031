"""The one pass: predictions are read once, and every metric and curve is computed from what it keeps."""
