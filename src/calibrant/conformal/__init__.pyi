from calibrant.conformal.abstention import Abstention as Abstention
from calibrant.conformal.abstention import abstain as abstain
from calibrant.conformal.base import Conformal as Conformal
from calibrant.conformal.classification import ConformalSets as ConformalSets
from calibrant.conformal.lookup import conformal as conformal
from calibrant.conformal.lookup import load as load
from calibrant.conformal.regression import ConformalQuantiles as ConformalQuantiles
from calibrant.conformal.regression import SplitConformal as SplitConformal
from calibrant.conformal.results import Intervals as Intervals
from calibrant.conformal.results import Sets as Sets
from calibrant.conformal.results import Share as Share

__all__: list[str]
