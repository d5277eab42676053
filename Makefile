# The README's commands. Every target sets itself up first; a second set-up costs nothing.
PYTHON ?= python3
VENV := .venv
# Two processes of pytest, each with a Spark session for its tests: a file runs in one of them, in the order of conftest.py.
PYTEST = $(BIN)/python -m pytest -n 2 --max-worker-restart=0 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
# In exact versions. Groups of dependencies need pip 25.1, which older Pythons do not bring.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
.DEFAULT_GOAL := help
.PHONY: help setup lock java demo test test-rare test-all fast lint types format versions corpus corpus-test fuzz plans soak bench clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(VENV)/.ready  ## a .venv with the package and its dependencies, in the versions of constraints.txt

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) pip
	@$(INSTALL) -e '.[demo,connect,metrics]' --group dev
	@touch $@

LOCKED = $(VENV)/lock
lock:  ## write constraints.txt anew: the newest versions that pyproject.toml allows
	@$(PYTHON) -m venv --clear $(LOCKED)
	@$(LOCKED)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(LOCKED)/bin/python -m pip install --quiet -e '.[demo,connect,metrics]' --group dev --group bench --group corpus
	@{ head -n 1 constraints.txt; $(LOCKED)/bin/python -m pip freeze --exclude-editable --all | grep -v '^setuptools'; } > $(LOCKED)/new
	@mv $(LOCKED)/new constraints.txt && rm -rf $(LOCKED)

java: setup
	@$(BIN)/trijoin-sql doctor --quiet

demo: java  ## three streams of real departures, a cyclic and a chain query (about two minutes)
	@$(BIN)/trijoin-sql demo

test: java lint types  ## lint, types and the tests, but for those that are rare
	@$(PYTEST) -m 'not rare'

test-rare: java  ## the tests that `make test` leaves out: long ones, of which shorter ones protect most
	@$(PYTEST) -m rare

test-all: test test-rare  ## all tests

fast: setup  ## the tests that need no Spark
	@$(PYTEST) -m 'not spark and not slow'

lint: setup  ## ruff, its rules and its format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

# mypy cannot follow the package-dir mapping of pyproject.toml, so it reads a tree of links that has the installed shape.
types: setup  ## mypy, strict
	@rm -rf build/types && mkdir -p build/types/trijoin_sql build/types/tests
	@for entry in trijoin_sql/*; do ln -s "$(CURDIR)/$$entry" build/types/$$entry; done
	@ln -s "$(CURDIR)/rewriter" "$(CURDIR)/operators" build/types/trijoin_sql/
	@ln -s "$(CURDIR)/tests/__init__.py" "$(CURDIR)/tests/bench" build/types/tests/
	@cd build/types && ../../$(BIN)/mypy --cache-dir ../../.mypy_cache --config-file ../../pyproject.toml -p trijoin_sql -p tests.bench

versions: java  ## the tests that matter on the lowest and on the highest versions; writes the README's table of versions
	@$(BIN)/python .ci/versions.py

format: setup  ## format and mend what lint can mend
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

corpus: setup  ## TPC-H's 22 and TPC-DS's 99 queries with small data, in queries/
	@$(INSTALL) --group corpus
	@$(BIN)/python tests/corpus/generate.py

corpus-test: java  ## run them all, on batch tables and as streams, compare with Spark's own rows, write the table of queries/README.md
	@$(BIN)/python -m tests.corpus.compare; rows=$$?; $(BIN)/python -m tests.corpus.streams; streams=$$?; \
	$(BIN)/python -m tests.corpus.compare --table; test $$rows$$streams = 00

fuzz: java  ## random SQL against Spark batch, damaged SQL against the rewriter, joins by other doors and over restarts, trees of joins of several kinds, joins of joins in views and CTEs, streams with state around joins; SECONDS (600) and SEED say how much
	@$(BIN)/python tests/rewriter/mutate.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)); damaged=$$?; \
	$(BIN)/python tests/rewriter/fuzz.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)); random=$$?; \
	$(BIN)/python -m tests.event_time.doors --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)); doors=$$?; \
	$(BIN)/python -m tests.streaming.join_trees --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)); trees=$$?; \
	$(BIN)/python -m tests.streaming.compositions --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)); composed=$$?; \
	$(BIN)/python -m tests.event_time.corpus $(if $(SEED),--seed $(SEED)); test $$damaged$$random$$doors$$trees$$composed$$? = 000000

plans: setup  ## write the golden plans of the corpus anew
	@$(BIN)/python tests/rewriter/goldens.py

.PHONY: docs docs-parts
docs: setup  ## the documentation as a site, in build/docs; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs && echo build/docs/index.html

docs-parts: java  ## write what docs/ takes from the code: tables, README's picture, the notebook's outputs
	@$(BIN)/python docs/generate.py && $(BIN)/python docs/notebook.py

soak: java  ## long runs: what has to stay flat does, and 5 GiB of state in 512 MiB of memory (an hour)
	@$(BIN)/python -m tests.soak.soak $(SOAK)

.PHONY: fixtures crash
fixtures: java  ## write the checkpoints of tests/streaming/checkpoints anew (only when the state's format changes)
	@TRIJOIN_FIXTURES=write $(BIN)/python -m pytest tests/streaming/test_checkpoints.py

SEEDS ?= 9
FIRST ?= 0
crash: java  ## kill, freeze and damage running queries: SEEDS=n scenarios, from number FIRST=m on (a minute or two each)
	@$(BIN)/python -m tests.crash.scenarios --seeds $(SEEDS) --first $(FIRST)

bench: java  ## the benchmarks
	@$(BIN)/python -m tests.bench

.PHONY: dist
# The SBOM and the licences are those of an environment that has the wheel and nothing else.
dist: setup  ## the wheel, the sdist, and lists of what is installed with them (SBOM, licences), in dist/
	@rm -rf dist build/dist && mkdir -p build
	@$(BIN)/python -m trijoin_sql.spark.operator_jar operators/realtime/operator.jar
	@$(BIN)/python -m build --outdir dist . > build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@rm operators/realtime/operator.jar  # tests make their own
	@$(BIN)/twine check --strict dist/*
	@$(PYTHON) -m venv build/dist && build/dist/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json build/dist
	@$(BIN)/pip-licenses --python=build/dist/bin/python --order=license --format=markdown --output-file=dist/licenses.md \
		--partial-match --fail-on='GNU General Public;GPL-;AGPL;SSPL'

clean:  ## remove what setup and builds made
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache
