from calibrant.sklearn.estimators import RecalibratedClassifier as RecalibratedClassifier
from calibrant.sklearn.estimators import RecalibratedRegressor as RecalibratedRegressor
from calibrant.sklearn.scorers import Scorer as Scorer
from calibrant.sklearn.scorers import scorer as scorer

__all__: list[str]
