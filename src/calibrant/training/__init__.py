"""Training: tasks, likelihoods, schedules and the loop that trains networks, many at once."""

from calibrant.training.needed import require_torch

require_torch()
