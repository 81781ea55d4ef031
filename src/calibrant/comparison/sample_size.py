"""How many rows a paired comparison needs."""

from __future__ import annotations

import math

from calibrant.errors import UsageError, check_range
from calibrant.intervals import normal_quantile


def rows_needed(
    difference: float,
    *,
    sd: float | None = None,
    discordance: float | None = None,
    power: float = 0.8,
    level: float = 0.95,
    rows_per_unit: float = 1.0,
    correlation: float = 0.0,
) -> int:
    """The rows on which a paired comparison finds a difference with a given power.

    n = (z_α + z_β)² σ²/δ², times 1 + (m − 1)ρ for units of m rows with correlation ρ. σ is the standard deviation of
    the row-wise differences of the scores; of accuracies it follows from the share of rows in which one model is right
    and the other wrong, σ² = discordance − δ² (Miettinen 1968).

    Parameters
    ----------
    difference : float
        The difference to find, such as 0.01 of accuracy.
    sd : float, optional
        The standard deviation of the differences of the rows, from a pilot: exactly one of `sd` and `discordance`.
    discordance : float, optional
        For accuracies: the share of rows in which exactly one of the models is right.
    power, level : float
        The probability of finding the difference, and the level of the two-sided test.
    rows_per_unit, correlation : float
        Rows of a unit (samples of a question), and the correlation of their differences.

    Returns
    -------
    int

    Examples
    --------
    >>> from calibrant.comparison import rows_needed
    >>> rows_needed(0.02, discordance=0.15)
    2936
    """
    check_range("difference", abs(difference), 0, inclusive="neither", hint="use difference=0.01")
    if (sd is None) == (discordance is None):
        got = "neither" if sd is None else "both"
        hint = "use discordance=0.1 for accuracies, or sd=0.5 for other scores"
        raise UsageError("rows_needed", expected="exactly one of sd and discordance", got=got, hint=hint)
    check_range("power", power, 0, 1, inclusive="neither", hint="use power=0.8")
    check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
    check_range("rows_per_unit", rows_per_unit, 1, hint="use rows_per_unit=5")
    check_range("correlation", correlation, 0, 1, hint="use correlation=0.3")
    if discordance is not None:
        least = abs(difference)
        check_range("discordance", discordance, least, 1, hint=f"it is at least the difference, {least:g}")
        variance = discordance - difference**2
    else:
        variance = check_range("sd", sd, 0, inclusive="neither", hint="use sd=0.5") ** 2
    one_sided = normal_quantile(2.0 * power - 1.0) if power >= 0.5 else -normal_quantile(1.0 - 2.0 * power)
    rows = (normal_quantile(level) + one_sided) ** 2 * variance / difference**2
    return math.ceil(rows * (1.0 + (rows_per_unit - 1.0) * correlation))
