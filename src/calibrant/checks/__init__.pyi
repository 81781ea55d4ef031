from calibrant.checks.api import check as check
from calibrant.checks.statistics import Statistic as Statistic
from calibrant.checks.subgroups import GroupError as GroupError
from calibrant.checks.subgroups import Multicalibration as Multicalibration
from calibrant.checks.subgroups import multicalibration as multicalibration
from calibrant.results.check import Check as Check
from calibrant.results.pass_rates import PassTable as PassTable
from calibrant.results.pass_rates import ShiftedCheck as ShiftedCheck

__all__: list[str]
