"""Speed and memory beside what people use today, as ratios within one run."""
