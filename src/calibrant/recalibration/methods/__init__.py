"""One file per recalibration method, and what several of them share."""
