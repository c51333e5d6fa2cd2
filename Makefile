# im2wingen: environment, tests, checks, tuning. `make help` lists the targets.
#
#   PYTHON=python3.12   the interpreter that makes the environment (3.11 to 3.13)
#   USE_SYSTEM=1        run with PYTHON itself, which has the packages already; makes no environment, downloads nothing
#   VENV=.venv          where the environment lies

PYTHON ?= python3
VENV ?= .venv
LAYER ?= cv9
PRECISION ?= fp16
LAYOUT ?= nhwc
TUNE_FLAGS ?=
BENCH_FLAGS ?= --against cudnn,im2col,direct
SUITE_BUDGET ?= 20
PYTEST_FLAGS ?= -n auto --timeout 600
GPU_FLAGS ?=

RESULT = benchmarks/results/$(PRECISION)-$(LAYOUT)-n128.json
# What tests compile and build stays in the checkout and serves the next run.
TEST_ENV = IM2WINGEN_CACHE=$(CURDIR)/build/test-cache

ifdef USE_SYSTEM
RUN = $(PYTHON)
env env-bench:
	@$(PYTHON) -c 'import im2wingen.cli' || { echo "USE_SYSTEM=1: $(PYTHON) lacks packages of pyproject.toml" >&2; exit 1; }
else
RUN = $(abspath $(VENV))/bin/python
env: $(VENV)/.env
env-bench: $(VENV)/.env-bench
endif

.DEFAULT_GOAL := help
.PHONY: help env env-bench tune test check format gpu bench bench-cpu suite wheel clean

help: ## Show this list
	@echo 'make TARGET [NAME=VALUE ...]'
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 12
	@echo 'PYTHON, USE_SYSTEM=1, VENV: see the head of the Makefile'

# PRECISION is passed on where it was given: without one it's fp16 on a GPU, fp32 on the CPU.
tune: env ## Tune LAYER (cv9) in PRECISION, LAYOUT: on a GPU or, where there is none, on the CPU
	$(RUN) -m im2wingen tune $(LAYER) $(if $(filter file,$(origin PRECISION)),,--precision $(PRECISION)) \
	  --layout $(LAYOUT) $(TUNE_FLAGS)

test: env ## Run the tests, none of which needs a GPU
	$(TEST_ENV) $(RUN) -m pytest $(PYTEST_FLAGS)

check: env ## Lint, formatting, types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: env ## Format and fix what ruff can fix
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

gpu: env-bench ## Run the tests that need a GPU
	$(TEST_ENV) $(RUN) -m pytest -m gpu tests/gpu $(GPU_FLAGS)

bench: env-bench ## Measure the twelve layers beside their peers and rewrite the README's table
	$(RUN) -m im2wingen bench --suite im2win --precision $(PRECISION) --layout $(LAYOUT) $(BENCH_FLAGS) \
	  --out $(RESULT) --readme README.md

bench-cpu: env-bench ## Measure the twelve layers on the CPU beside its peers and rewrite the README's table
	$(RUN) -m im2wingen bench --backend cpu --suite im2win --batch 1 --prepacked \
	  --out benchmarks/results/cpu-fp32-nhwc-n1-prepacked.json --readme README.md

suite: env-bench ## Tune the twelve layers in every precision and layout, SUITE_BUDGET seconds each; serve and check all
	for precision in fp16 bf16 tf32 fp32; do for layout in nhwc nchw; do \
	  $(RUN) -m im2wingen tune im2win --precision $$precision --layout $$layout --time-budget $(SUITE_BUDGET) || exit; \
	done; done
	$(RUN) benchmarks/serve.py --out benchmarks/results/served-n128.json

wheel: env ## Build the wheel and use it away from the checkout
	rm -rf build/wheel build/installed
	$(RUN) -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(RUN) -m pip install --quiet --no-deps --target build/installed build/wheel/im2wingen-*.whl
	cd build/installed && PYTHONPATH=. $(RUN) -m im2wingen doctor --db ../wheel/tuning.sqlite
	cd build/installed && PYTHONPATH=. $(RUN) -m im2wingen tune cv12 --batch 1 --arch sm_80 --max-trials 2 \
	  --db ../wheel/tuning.sqlite
	cd build/installed && PYTHONPATH=. $(RUN) -m im2wingen inspect cv9 --source --db ../wheel/tuning.sqlite > ../wheel/cv9.cu

clean: ## Remove what these targets made: environment, build outputs, caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an installation that was cut short is done again.
$(VENV)/.env: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "$(PYTHON) must be Python 3.11, 3.12 or 3.13; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "$(PYTHON) can't make environments; install its venv package (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.env-bench: $(VENV)/.env
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test,bench,plot]'
	touch $@
