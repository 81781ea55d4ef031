# Each target makes its own environment: a machine with Python 3.11, pip and make is enough.
PYTHON ?= python3
DEMO_ENV ?= .venv-demo
ENV ?= .venv
PIP = -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

GPU_PYTHON ?= $(ENV)/bin/python

.PHONY: demo test test-gpu lint bench evidence docs clean

demo: $(DEMO_ENV)/ready
	$(DEMO_ENV)/bin/calibrant demo --out calibrant-demo

test: $(ENV)/ready
	$(MAKE) --no-print-directory lint
	$(ENV)/bin/python -m pytest -n 2

# On a machine whose own Python has PyTorch with CUDA and pytest: make test-gpu GPU_PYTHON=python3
test-gpu: $(if $(filter $(ENV)/bin/python,$(GPU_PYTHON)),$(ENV)/ready)
	CALIBRANT_GPU=required PYTHONPATH=src $(GPU_PYTHON) -m pytest -m gpu tests/training tests/methods

lint: $(ENV)/ready
	$(ENV)/bin/ruff check .
	$(ENV)/bin/ruff format --check .
	$(ENV)/bin/mypy
	$(ENV)/bin/lint-imports

bench: $(ENV)/ready
	$(ENV)/bin/python -m benchmarks.run --write docs/speed.md

evidence: $(ENV)/ready
	$(ENV)/bin/python -m evidence.run

docs: $(ENV)/ready
	$(ENV)/bin/python $(PIP) --editable .[docs]
	$(ENV)/bin/python scripts/make_metric_pages.py
	$(ENV)/bin/python scripts/make_gallery.py
	NO_MKDOCS_2_WARNING=1 $(ENV)/bin/mkdocs build --strict

$(DEMO_ENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEMO_ENV)
	$(DEMO_ENV)/bin/python $(PIP) --editable .[report]
	touch $@

$(ENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ENV)
	$(ENV)/bin/python $(PIP) torch
	$(ENV)/bin/python $(PIP) --editable .[test]
	touch $@

clean:
	rm -rf $(ENV) $(DEMO_ENV) build dist site
