"""Training: tasks, likelihoods, schedules and the one loop that trains networks, many at once where that pays."""

from calibrant.training.needed import need_torch

need_torch()
