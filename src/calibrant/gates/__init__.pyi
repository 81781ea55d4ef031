from calibrant.gates.api import Gate as Gate
from calibrant.gates.api import gate as gate
from calibrant.results.gates import GateResult as GateResult
from calibrant.results.gates import Gates as Gates

__all__: list[str]
