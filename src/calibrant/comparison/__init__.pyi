from calibrant.comparison.api import compare as compare
from calibrant.comparison.calibrated_likelihood import Cll as Cll
from calibrant.comparison.calibrated_likelihood import cll as cll
from calibrant.comparison.calibrated_likelihood import cll_curve as cll_curve
from calibrant.comparison.ensemble_equivalent import equivalent as equivalent
from calibrant.comparison.pitfalls.lint import Lint as Lint
from calibrant.comparison.pitfalls.lint import lint as lint
from calibrant.comparison.ranking_stability import rank_flips as rank_flips
from calibrant.comparison.sample_size import rows_needed as rows_needed
from calibrant.results.comparison import CllCurve as CllCurve
from calibrant.results.comparison import Comparison as Comparison
from calibrant.results.comparison import DatasetsSummary as DatasetsSummary
from calibrant.results.comparison import Equivalent as Equivalent
from calibrant.results.comparison import MeanEquivalent as MeanEquivalent
from calibrant.results.comparison import ModelSummary as ModelSummary
from calibrant.results.comparison import Pair as Pair
from calibrant.results.comparison import PairSummary as PairSummary
from calibrant.results.comparison import Ranked as Ranked
from calibrant.results.comparison import ShiftedCll as ShiftedCll
from calibrant.results.rank_flips import RankFlips as RankFlips

__all__: list[str]
