# `make` says what there is. PYTHON=/path/to/python3 chooses the interpreter of the virtual environment.
BIN := .venv/bin
TESTS ?= tests src
# Two workers fit two cores beside the JVMs that they start. A file's tests stay together, and so do all files that use
# a session (tests/running_order.py). Processes that tests start find their bytecode compiled.
PYTEST := MPLBACKEND=Agg PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-fast coverage check types site bench soak soak-older-spark jar clean

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

.venv/.installed: pyproject.toml constraints.txt tools/venv.sh
	@PYTHON="$(PYTHON)" tools/venv.sh

venv: .venv/.installed ## make .venv with everything pinned (done by itself where it is needed)

demo: venv ## all of it on generated traffic, about a minute
	@$(BIN)/tolerant demo

test: venv ## every test but the long ones; at the end the slowest tests, the time and the processor time
	@$(BIN)/python tools/processor_time.py env $(PYTEST) --durations=20 -m "not soak" $(TESTS)

test-fast: venv ## the tests that start no Spark session
	@TOLERANT_SEED_SECONDS=0 TOLERANT_PROFILE=fast $(PYTEST) -m "not spark and not soak" $(TESTS)

coverage: venv ## which lines the fast tests run; a page in out/coverage
	@$(PYTEST) -m "not spark and not soak" --cov=tolerant --cov-report=term:skip-covered --cov-report=html:out/coverage tests

check: types site ## lint, format, types, layers, words, the documentation's links
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/wording.py

types: venv ## mypy: strict on the package, plain on tests, benchmarks and tools
	@$(BIN)/mypy

site: venv ## the documentation as a site in out/site, strictly: no link leads nowhere
	@$(BIN)/python tools/site.py

bench: venv ## every benchmark, in its quick form; figures in out/
	@$(BIN)/python benchmarks/all.py --quick

soak: venv ## the long tests: 20,000 seeds, 100,000 forged payloads of every kind, 20 kills, outages of polled servers, ten times the examples
	@$(PYTEST) --timeout 14400 -m soak tests
	@TOLERANT_PROFILE=thorough $(PYTEST) --timeout 14400 -m "not spark and not soak" tests
	@$(BIN)/python benchmarks/state_growth.py
	@$(BIN)/python benchmarks/polling_outages.py
	@$(MAKE) soak-older-spark

soak-older-spark: venv ## a stream, a table and a view through kills, on the oldest Spark that is supported
	@tools/older_spark.sh 4.2.1

jar: venv ## build the Java helpers again (needs a JDK)
	@tools/jar.sh

clean: ## take away everything that was made
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
