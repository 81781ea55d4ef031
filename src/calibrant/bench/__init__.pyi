from calibrant.bench.papers import PAPERS as PAPERS
from calibrant.bench.papers import Recipe as Recipe
from calibrant.bench.papers import Reproduction as Reproduction
from calibrant.bench.papers import Statement as Statement
from calibrant.bench.papers import recipe as recipe
from calibrant.bench.papers import recipes as recipes

__all__: list[str]
