"""Posterior predictive checks as they are written down, in plain loops: slow, and meant to be obviously right.

Gopal (2021), algorithm 2 (one member draws all labels), 4 (a member for each row) and 3 (what is read off). A statistic
is a function of (labels, averaged prediction). Averaged predictions are: of classes, p (N, C) = mean_m softmax(z_m); of
Gaussians, the pair (mean, std) of (M, N) arrays, whose mixture it is; of judged answers, the mean confidence (N,).
"""

import math

BAYESIAN, INDEPENDENT = "bayesian", "independent"


# -------------------------------------------------------------------------------------------- replicates
def _drawers(members, reading, n, rng):
    """The member that draws each row."""
    if reading == BAYESIAN:
        return [int(rng.integers(members))] * n
    if reading == INDEPENDENT:
        return [int(rng.integers(members)) for _ in range(n)]
    raise ValueError(reading)


def softmax(z):
    top = max(z)
    e = [math.exp(x - top) for x in z]
    return [x / sum(e) for x in e]


def averaged(logits):
    """p (N, C) of logits (M, N, C)."""
    parts = [[softmax(row) for row in member] for member in logits]
    n, classes = len(parts[0]), len(parts[0][0])
    return [[sum(part[i][c] for part in parts) / len(parts) for c in range(classes)] for i in range(n)]


def _draw(p, u):
    """The class in which u falls."""
    below = 0.0
    for c, share in enumerate(p):
        below += share
        if u < below:
            return c
    return max(c for c, share in enumerate(p) if share > 0)  # u above a sum that was rounded


def replicates_classification(logits, statistic, draws, members, rng):
    """Values of the statistic on replicated labels; logits (M, N, C), members: BAYESIAN or INDEPENDENT."""
    parts, mean = [[softmax(row) for row in member] for member in logits], averaged(logits)
    values = []
    for _ in range(draws):
        who = _drawers(len(parts), members, len(mean), rng)
        labels = [_draw(parts[m][i], rng.random()) for i, m in enumerate(who)]
        values.append(statistic(labels, mean))
    return values


def replicates_gaussian(mean, std, statistic, draws, members, rng):
    """The same for Gaussian members, mean and std (M, N)."""
    values = []
    for _ in range(draws):
        who = _drawers(len(mean), members, len(mean[0]), rng)
        y = [mean[m][i] + std[m][i] * rng.standard_normal() for i, m in enumerate(who)]
        values.append(statistic(y, (mean, std)))
    return values


def replicates_judged(confidence, statistic, draws, members, rng):
    """The same for judged answers, confidence (M, N): labels say whether an answer is right."""
    average = [sum(row) / len(confidence) for row in zip(*confidence, strict=True)]
    values = []
    for _ in range(draws):
        who = _drawers(len(confidence), members, len(average), rng)
        right = [int(rng.random() < confidence[m][i]) for i, m in enumerate(who)]
        values.append(statistic(right, average))
    return values


# -------------------------------------------------------------------------------- statistics of classes
def predicted(row):
    """The most probable class, the first of equal ones."""
    return max(range(len(row)), key=lambda c: (row[c], -c))


def accuracy(labels, p):
    return sum(predicted(row) == y for y, row in zip(labels, p, strict=True)) / len(labels)


def _binned_error(confidence, right, bins=15):
    """Σ_b n_b/N·|share right − mean confidence|, bins ((b − 1)/B, b/B], 0 in the first."""
    total = 0.0
    for b in range(bins):
        inside = [i for i, c in enumerate(confidence) if min(max(math.ceil(c * bins) - 1, 0), bins - 1) == b]
        total += abs(sum(right[i] - confidence[i] for i in inside))
    return total / len(confidence)


def ece(labels, p):
    right = [predicted(row) == y for y, row in zip(labels, p, strict=True)]
    return _binned_error([max(row) for row in p], right)


def nll(labels, p):
    return -sum(math.log(row[y]) if row[y] > 0 else -math.inf for y, row in zip(labels, p, strict=True)) / len(labels)


def brier(labels, p):
    squares = [sum((row[c] - (c == y)) ** 2 for c in range(len(row))) for y, row in zip(labels, p, strict=True)]
    return sum(squares) / len(labels)


def class_frequency(of):
    return lambda labels, p: sum(y == of for y in labels) / len(labels)


def confusion(true, said):
    """The share of all rows with this label and this predicted class."""
    return lambda labels, p: (
        sum(y == true and predicted(row) == said for y, row in zip(labels, p, strict=True)) / len(p)
    )


def entropy(labels, p):
    shares = [class_frequency(c)(labels, p) for c in range(len(p[0]))]
    return -sum(f * math.log(f) for f in shares if f > 0)


# ------------------------------------------------------------------------ statistics of judged answers
def judged_accuracy(right, confidence):
    return sum(right) / len(right)


def judged_ece(right, confidence):
    return _binned_error(confidence, right)


def judged_nll(right, confidence):
    return nll(right, [[1 - c, c] for c in confidence])


def judged_brier(right, confidence):
    return brier(right, [[1 - c, c] for c in confidence])


# ------------------------------------------------------------------------------ statistics of Gaussians
def _phi(z):
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _cdf(z):
    return math.erfc(-z / math.sqrt(2)) / 2


def _over_members(function, y, mixture):
    """For each row, the mean over members of function(y, mean, std)."""
    means, stds = mixture
    members = range(len(means))
    return [sum(function(y[i], means[m][i], stds[m][i]) for m in members) / len(means) for i in range(len(y))]


def pit(y, mixture):
    """F(y) of each row."""
    return _over_members(lambda x, mean, std: _cdf((x - mean) / std), y, mixture)


def calibration_error(y, mixture, levels=100):
    """Σ_j (p_j − share of F(y) < p_j)², p_j = j/levels."""
    f = pit(y, mixture)
    shares = [sum(v < j / levels for v in f) / len(f) for j in range(1, levels + 1)]
    return sum((j / levels - share) ** 2 for j, share in enumerate(shares, 1))


def picp(y, mixture, level=0.95):
    return sum((1 - level) / 2 <= v <= (1 + level) / 2 for v in pit(y, mixture)) / len(y)


def mse(y, mixture):
    centre = _over_members(lambda x, mean, std: mean, y, mixture)
    return sum((c - x) ** 2 for c, x in zip(centre, y, strict=True)) / len(y)


def gaussian_nll(y, mixture):
    return -sum(map(math.log, _over_members(lambda x, mean, std: _phi((x - mean) / std) / std, y, mixture))) / len(y)


def _expected_distance(mean, std):
    """E|X| of a Gaussian."""
    return 2 * std * _phi(mean / std) + mean * (2 * _cdf(mean / std) - 1)


def crps(y, mixture):
    """E|X − y| − ½E|X − X'|, the second over all pairs of members."""
    means, stds = mixture
    members = range(len(means))
    far = _over_members(lambda x, mean, std: _expected_distance(x - mean, std), y, mixture)
    total = 0.0
    for i in range(len(y)):
        pairs = [(means[m][i] - means[k][i], math.hypot(stds[m][i], stds[k][i])) for m in members for k in members]
        total += far[i] - sum(_expected_distance(*pair) for pair in pairs) / (2 * len(pairs))
    return total / len(y)


def mean(y, mixture):
    return sum(y) / len(y)


def smallest(y, mixture):
    return min(y)


def largest(y, mixture):
    return max(y)


def quantile(level):
    return lambda y, mixture: _quantile(y, level)


# --------------------------------------------------------------------------------------- what is read off
def _quantile(values, level):
    """Linear between neighbours of the sorted values."""
    ranked, place = sorted(values), level * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])


def p_value(observed, values):
    """The share of replicates strictly below."""
    return sum(v < observed for v in values) / len(values)


def mid_p(observed, values):
    return p_value(observed, values) + 0.5 * sum(v == observed for v in values) / len(values)


def two_sided(observed, values):
    middle = mid_p(observed, values)
    return min(1.0, 2 * min(middle, 1 - middle))


def sharpness(values):
    return _quantile(values, 0.95) - _quantile(values, 0.05)
