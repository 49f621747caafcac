# make quickstart   install, then train and compare a plain classifier and its S2D twin (needs no dataset)
# make test         install, then run the default tests
# make test-all     the same with the slow ones, ONNX, LiteRT and gRPC (installs those, too)
# make test-browser the pages in Chromium, which has to be installed; skipped without it
# make site         the documentation as a site, in .site/html; a warning is an error
# make test-site    build the site, check it, and open its pages in Chromium, which has to be installed
# make test-beam    the tests of Apache Beam, in an environment of their own, because it wants an older protobuf
# make lint         ruff: lint and format check; mypy: types
# make bench        run the benchmarks, e.g. the overhead of S2D over a plain classifier
# make clean        remove the environment and build files
#
# PYTHON=python3.12 make test uses another interpreter; VENV=path puts the environment elsewhere, BEAM_VENV=path that of Beam.

PYTHON ?= python3
VENV ?= .venv
BEAM_VENV ?= .venv-beam
# TensorFlow takes both cores of a small machine and much memory: two workers, each test file in one of them.
PYTEST_WORKERS ?= 2
PYTEST_FLAGS ?=

BIN := $(VENV)/bin
# pip would compile every file of TensorFlow; Python compiles those that are imported, once, unless this is set.
export PYTHONDONTWRITEBYTECODE :=
# The stamps depend on what decides the environment, so an install is repeated only when that changes.
INSTALL_INPUTS := setup.cfg pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-all test-browser site test-site test-beam run-test-beam lint format bench clean

help:
	@sed -n 's/^# make /make /p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "s2d_tf needs Python 3.11 or newer, received " + sys.version.split()[0] + ": try PYTHON=python3.12 make ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(INSTALL_INPUTS) | $(BIN)/python
	@echo "Installing s2d_tf, TensorFlow and the rest into $(VENV): two minutes or so, once."
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	@touch $@

# setuptools and wheel: the tests build a wheel without a network.
$(VENV)/.installed-test: $(INSTALL_INPUTS) | $(BIN)/python
	@echo "Installing s2d_tf, TensorFlow and the test tools into $(VENV): two minutes or so, once."
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'setuptools>=64' wheel --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-test-all: $(INSTALL_INPUTS) | $(BIN)/python
	@echo "Installing s2d_tf, TensorFlow, the test tools and the other runtimes into $(VENV): three minutes or so, once."
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'setuptools>=64' wheel --editable '.[testall]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

$(VENV)/.installed-test-browser: $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'setuptools>=64' wheel --editable '.[test, browser]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

$(VENV)/.installed-site: $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-test-site: $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'setuptools>=64' wheel --editable '.[test, browser, docs]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed-site $(VENV)/.installed

$(VENV)/.installed-test-beam: $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'setuptools>=64' wheel --editable '.[test, beam]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

quickstart: $(VENV)/.installed
	$(BIN)/s2d quickstart

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile $(PYTEST_FLAGS)

test-all: $(VENV)/.installed-test-all
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile -m "" $(PYTEST_FLAGS)

test-browser: $(VENV)/.installed-test-browser
	$(BIN)/python -m pytest -m browser tests/trainers/demo_page/demo_browser_test.py tests/trainers/studies/report_test.py $(PYTEST_FLAGS)

site: $(VENV)/.installed-site
	$(BIN)/python docs/site/build.py

test-site: $(VENV)/.installed-test-site
	$(BIN)/python -m pytest -m site tests/site $(PYTEST_FLAGS)

# The same rules in the other environment.
test-beam:
	$(MAKE) VENV=$(BEAM_VENV) run-test-beam

run-test-beam: $(VENV)/.installed-test-beam
	$(BIN)/python -m pytest tests/trainers/scoring/beam_test.py $(PYTEST_FLAGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(BEAM_VENV) .site .pybuild dist s2d_tf.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
