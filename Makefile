# `make help` lists everything. PG=15 (Debian's server), 16, 17 (from npm) or 18 (the embedded one);
# JOBS processes run the tests, each with a server of its own.

PYTHON ?= python3
PG ?= $(if $(shell command -v apt-get),15,18)
BIN := .venv/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
ARGS ?=
JOBS ?= 2

DEBIAN_PACKAGES := python3-venv postgresql-15 postgresql-client-15 postgresql-15-pgtap \
  postgresql-15-plpgsql-check postgresql-15-cron libtap-parser-sourcehandler-pgtap-perl \
  $(if $(shell command -v npm),,nodejs npm) \
  $(if $(ROWLOCK_BROWSER),,chromium) fonts-dejavu-core libatomic1 \
  curl jq pgbouncer redis-tools

COMPOSE := $(wildcard docker-compose*.yml)
DOCKERFILES := $(wildcard Dockerfile docker/Dockerfile* docker/*/Dockerfile*)

# plpgsql_check comes with Debian's server only; a part of the tests need not cover everything.
COVERAGE := $(if $(filter 15,$(PG)),--plpgsql-coverage $(if $(ARGS),,--plpgsql-fail-under=95))

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: packages
packages: ## Install the Debian packages that the tests use and that are missing
	@if command -v apt-get > /dev/null; then \
	  missing=; \
	  for package in $(DEBIAN_PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$package 2> /dev/null | grep -q 'install ok installed' \
	      || missing="$$missing $$package"; \
	  done; \
	  if [ -n "$$missing" ]; then \
	    echo "installing$$missing"; \
	    $(SUDO) apt-get update -qq -o DPkg::Lock::Timeout=120 \
	      && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	        -o DPkg::Lock::Timeout=120 --no-install-recommends $$missing > /dev/null < /dev/null; \
	  fi; \
	else \
	  echo "no apt-get here: pgTAP files, race specs and pg_prove are skipped where missing"; \
	fi

PROMTOOL := .cache/promtool/usr/bin/promtool

.PHONY: promtool
promtool: $(if $(shell command -v promtool),,$(if $(shell command -v apt-get),$(PROMTOOL))) ## Fetch promtool, which checks the alerts and the metrics

# Unpacked, not installed: the package would start a server.
$(PROMTOOL):
	@mkdir -p .cache/promtool
	@cd .cache/promtool && { apt-get download -qq prometheus 2> /dev/null \
	  || { $(SUDO) apt-get update -qq && apt-get download -qq prometheus; }; } \
	  && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

.PHONY: venv
venv: .venv/installed ## Make the virtual environment

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2> /dev/null || ! command -v apt-get > /dev/null \
	  || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq python3-venv > /dev/null; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,e2e]'
	@touch $@

.PHONY: test
test: packages promtool venv ## Run all tests on one PostgreSQL: make test [PG=16] [ARGS='-k claim']
	PG=$(PG) $(BIN)/python -m pytest --numprocesses=$(JOBS) --cov --durations=10 --durations-min=3 $(COVERAGE) $(ARGS)

.PHONY: screenshots
screenshots: packages venv ## Take the README's pictures of the dashboard anew
	$(BIN)/python -m tests.browser.screenshots

.PHONY: coverage
coverage: ## Print which lines the last run on PG=15 left uncovered
	@$(BIN)/coverage report --show-missing
	@$(BIN)/python -m tests.support.plpgsql_coverage --min 95

.PHONY: pg_prove
pg_prove: packages venv ## Run the pgTAP files with pg_prove
	PG=$(PG) $(BIN)/python -m tests.support.prove $(ARGS)

.PHONY: lint
lint: venv ## Check the style and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/squawk db/migrations/*.sql

.PHONY: containers
containers: venv ## Check the compose file and the Dockerfiles (no Docker engine needed)
	$(if $(COMPOSE),$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec $(COMPOSE))
	$(if $(DOCKERFILES),$(BIN)/hadolint $(DOCKERFILES))

.PHONY: format
format: venv ## Put the Python files into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: chaos
chaos: venv ## Kill workers and servers, then check that no job was lost [ARGS='--seed 7 --seconds 60']
	PG=$(PG) $(BIN)/python -m chaos $(ARGS)

.PHONY: demo
demo: venv ## See it work: make demo [ARGS=--once]
	$(BIN)/rowlock demo $(ARGS)

.PHONY: bench
bench: DEBIAN_PACKAGES := python3-venv $(filter postgresql-$(PG),postgresql-15) \
  $(if $(QUICK),,redis-tools $(if $(shell command -v npm),,nodejs npm))
bench: packages venv ## Rowlock and its peers on one server: make bench [QUICK=1] [FULL=1] [README=1] [PG=18]
	@$(BIN)/python -m bench.queues --pg $(PG) $(if $(QUICK),--quick) $(if $(FULL),--full) \
	  $(if $(README),--readme) $(ARGS)

.PHONY: bench-claim
bench-claim: venv ## What a claim costs with millions of jobs: make bench-claim [PG=18]
	@$(BIN)/python -m bench.claim --pg $(PG)

.PHONY: bench-profile
bench-profile: venv ## Where the time of a job goes, in the server and in the worker: make bench-profile [PG=18]
	@$(BIN)/python -m bench.profile --pg $(PG)

.PHONY: bench-web
bench-web: venv ## What the dashboard's reads cost with 5 M jobs: make bench-web [PG=18] [ARGS=--fresh]
	@$(BIN)/python -m bench.web_reads --pg $(PG) $(ARGS)

.PHONY: clean
clean: ## Remove what the targets above made
	rm -rf .venv .cache .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
