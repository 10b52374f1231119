# `make demo` and `make test` need nothing but Python 3.11 or newer and make.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
INSTALL ?= $(RUN) -m pip install --quiet --disable-pip-version-check
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# PyPI's torch for Linux brings gigabytes of CUDA. For the CPU build elsewhere:
#   make test-training TORCH='torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu'
TORCH ?= torch==2.13.0
# The version that CHANGELOG.md was cut for.
VERSION := $(shell sed -n 's/^\#\# \[\([0-9][0-9.]*\)\].*/\1/p' CHANGELOG.md | head -1)

.PHONY: app audit constraints demo docs pages demo-sweep demo-sweep-small reproduction test test-short test-training test-ray test-slurm lint types contract guard fuzz mutants nightly oldest results studies bench wheel release clean

demo: $(VENV)/.report  ## the main job on the real example runs, from a table to a plan; its files lie in demo/
	$(RUN) examples/demo.py

demo-sweep: $(VENV)/.training  ## from nothing to a plan: text, a miniature ladder with replay, laws (minutes on a laptop)
	$(RUN) examples/demo_sweep.py

demo-sweep-small: $(VENV)/.training
	$(RUN) examples/demo_sweep.py --small

reproduction: $(VENV)/.report  ## the PTPP paper's study on the example runs; figures 1 to 3 in reproduction/
	$(RUN) -m studies reproduce_ptpp -o reproduction

app: $(VENV)/.app  ## the app with the example runs
	$(RUN) -m cptlaw app

test: $(VENV)/.dev  ## the whole suite, and what it cost
	$(RUN) -m pytest -n auto --dist worksteal --cpu=$(VENV)/cpu.json

nightly: $(VENV)/.dev  ## statements about data, over many tables and draws; then the mutants
	$(RUN) -m pytest -n auto --dist worksteal -m nightly
	$(RUN) tests/mutants.py

mutants: $(VENV)/.dev  ## faults that the suite must see, each in a copy of this tree
	$(RUN) tests/mutants.py

test-short: $(VENV)/.dev  ## a minute of it: the command line, files on disk, README as it is typed
	$(RUN) -m pytest -n auto tests/cli tests/test_writing.py tests/test_units.py tests/test_docs.py

test-training: $(VENV)/.dev $(VENV)/.training  ## the sweep: training, killing, resuming; the callback inside other trainers
	$(INSTALL) trl
	$(RUN) -m pytest -n auto tests/training cptlaw_sweep

test-ray: $(VENV)/.dev $(VENV)/.training  ## a node of a Ray cluster is lost in mid-sweep
	$(INSTALL) --editable '.[ray]'
	$(RUN) -m pytest -s tests/training/test_engine_ray.py

test-slurm: $(VENV)/.dev $(VENV)/.training  ## a node of Debian's Slurm on the loopback is lost in mid-sweep (as root; minutes)
	$(INSTALL) --editable '.[slurm]'
	$(RUN) -m pytest -s -m '' tests/training/test_engine_slurm.py

docs: $(VENV)/.docs  ## the site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

pages: $(VENV)/.dev  ## run the code of the pages and write what it prints into them (README.md and docs/)
	$(RUN) docs/run_pages.py --write

wheel: $(VENV)/bin/python  ## build wheel and sdist, install each into a bare environment, and run what it installed
	rm -rf dist .wheel
	$(INSTALL) build
	$(RUN) -m build --outdir dist .
	for package in dist/*.whl dist/*.tar.gz; do \
		rm -rf .wheel && $(PYTHON) -m venv .wheel && .wheel/bin/python -m pip install --quiet --disable-pip-version-check $$package \
		&& (cd .wheel && bin/cptlaw --version && bin/cptlaw laws chinchilla > /dev/null \
		&& bin/cptlaw fit "$$(bin/cptlaw example en-fr-pilot)" --law ptpp-floor --on target --json > /dev/null) || exit 1; \
	done; rm -rf .wheel

release: lint types contract test docs wheel  ## build and check a release; the last two steps are a person's
	@grep -q "^## \[$(VERSION)\]" CHANGELOG.md || { echo "CHANGELOG.md has no section $(VERSION)"; exit 1; }
	@grep -q "^version: $(VERSION)$$" CITATION.cff || { echo "CITATION.cff names another version than $(VERSION)"; exit 1; }
	$(RUN) -m studies results
	@! grep -q '"moved"' studies/stamps.json || { echo "result files are out of date: make results"; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "commit first: the tag is to name what was built"; exit 1; }
	@echo "dist/ is built and checked. Press: git tag -a v$(VERSION) -m $(VERSION) && make wheel && git push --tags"
	@echo "then: $(RUN) -m twine upload dist/*"

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.dev
	$(VENV)/bin/mypy

contract: $(VENV)/.dev  ## imports point one way
	$(VENV)/bin/lint-imports

oldest: $(VENV)/bin/python  ## the suite with the oldest version of every dependency that pyproject.toml allows
	$(PYTHON) tests/oldest_versions.py parquet report app > $(VENV)/oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --disable-pip-version-check -r $(VENV)/oldest.txt pytest hypothesis pytest-xdist
	$(VENV)-oldest/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	PYTHONPATH="$(CURDIR)" $(VENV)-oldest/bin/python -m pytest -n auto

audit: $(VENV)/.dev  ## known holes in the versions of .ci/constraints.txt; it asks an advisory service on the network
	$(VENV)/bin/pip install --quiet --disable-pip-version-check pip-audit
	$(RUN) -m pip_audit --requirement .ci/constraints.txt --no-deps --disable-pip

constraints: $(VENV)/.training  ## hold what is installed now as the versions that one job of CI is tested with
	$(RUN) -m pip freeze --exclude-editable | grep -v '@ ' | sed 's/+cpu$$//' > .ci/constraints.txt

# For another Python: make test PYTHON=python3.13 VENV=.venv-3.13 (3.12 likewise)

studies: $(VENV)/.dev  ## the published studies on simulated data, in full
	$(RUN) -m studies dcpt_published_design
	$(RUN) -m studies dcpt_cross_domain
	$(RUN) -m studies interval_coverage
	$(RUN) -m studies suggestion_study
	$(RUN) -m studies unfinished_runs
	$(RUN) -m pytest -n auto -m study

results: $(VENV)/.dev  ## every result file of a study that is out of date, made anew, and the tables of pages: hours; goes on where it was stopped
	$(RUN) -m studies results --remake
	$(RUN) docs/run_pages.py --tables

bench: $(VENV)/.dev  ## timings; the peers are described in studies/benchmarks.md
	$(RUN) -m studies what_users_call
	$(RUN) -m studies load_million_rows
	$(RUN) -m studies chinchilla_fit
	$(RUN) -m studies dcpt_starts
	$(RUN) -m studies curve_fits
	$(RUN) -m studies growth
	$(RUN) -m studies start

guard: $(VENV)/.dev  ## fails where the point fit costs twice what it did, or a test of the last `make test` too much
	[ ! -e $(VENV)/cpu.json ] || $(RUN) tests/cpu.py $(VENV)/cpu.json
	$(RUN) -m studies growth --guard

fuzz: $(VENV)/.dev $(VENV)/.training  ## hostile input, changes that mean nothing, and mistakes of users, by the thousand
	$(RUN) tests/fuzz.py --n 20000 --seed 0
	$(RUN) tests/metamorphic.py --n 1000 --seed 0
	$(RUN) tests/spoilt.py --n 1000 --seed 0
	$(RUN) tests/spoilt.py --n 2000 --parts --quick --seed 0

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "cptlaw needs Python 3.11 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.report: $(VENV)/bin/python pyproject.toml
	$(INSTALL) --editable '.[report]'
	@touch $@ $(VENV)/.core

$(VENV)/.app: $(VENV)/bin/python pyproject.toml
	$(INSTALL) --editable '.[app]'
	@touch $@ $(VENV)/.core $(VENV)/.report

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.core $(VENV)/.report $(VENV)/.app

$(VENV)/.training: $(VENV)/bin/python pyproject.toml
	$(INSTALL) $(TORCH)
	$(INSTALL) --editable '.[training]'
	@touch $@
