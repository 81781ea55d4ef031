"""One file per family of metrics: what each metric is and how it is computed."""
