# The commands of this project. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= 1
SYSTEM ?= tickit
# Of the command line alone: WSL sets it to the machine's name.
ifeq ($(origin NAME),environment)
NAME :=
endif
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo up down logs test test-systems test-real test-athena test-slow test-long test-fast mutations lint lint-python lint-models format docs slim nightly bench packages lock clean

help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## Install everything into .venv (every other command does this first)

$(VENV)/.ready: requirements.lock pyproject.toml ingest/spark/jars.lock ingest/spark/jars.py ingest/spark/classes.py packages.yml dev/setup.sh dev/dbt_packages.py
	@bash dev/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $@

demo: setup  ## Generate a database, land it, build the marts, land its changes, build again and test (SCALE=0.01: a quick look; SYSTEM=tickit; TARGET=athena)
	@python -m dev.demo $(SYSTEM) --scale $(SCALE) $(TARGET:%=--target %)

up: setup  ## Start the real chain: databases, Kafka, registry, Connect with Debezium (SCALE=0.01, JSON=1, SYSTEM=tickit, KINESIS=1 STREAMS="a b": docs/operate/chain.md); ATHENA=1: a local Athena instead
	@python -m dev.chain up --system $(SYSTEM) --scale $(SCALE) $(if $(JSON),--with-json) $(if $(KINESIS),--with-kinesis $(STREAMS:%=--stream %)) $(if $(ATHENA),--athena)

down: setup  ## Stop it; databases, Kafka and the registry keep their data, the stand-ins of AWS lose theirs
	@python -m dev.chain down

logs: setup  ## The end of its logs (FOLLOW=1: go on)
	@python -m dev.chain logs $(if $(FOLLOW),--follow)

test: setup  ## A sample of the tests that need no server, in two processes; test-systems plays the example systems, test-slow has the slow ones
	pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 5

test-real: setup  ## The tests against real servers, whose packages dev/servers.sh installs (Debian; as root or by sudo)
	@bash dev/servers.sh
	pytest -n 2 --dist loadfile --durations 15 --durations-min 10 -m "real and not slow and not long" tests/real

test-systems: setup  ## Each system, TICKIT by its demonstration: its events landed, its models built, its expected results; projects, lakes and captures of others
	pytest -n 2 --dist loadfile --durations 15 --durations-min 10 -m "systems and not slow and not long"

test-athena: setup  ## A lake on S3 and Glue, and dbt's target athena beside Spark: on stand-ins of AWS on this machine
	pytest -n 2 --dist loadfile --durations 15 --durations-min 10 -m "athena and not slow and not long" tests/athena --ignore tests/athena/engine
	pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 15 --durations-min 10 -m "athena and not slow and not long" tests/athena/engine

test-slow: setup  ## The whole covering array of forms; histories, transactions, erasure; landing, dbt and servers killed, full disks; S3 broken off at every phase
	@bash dev/servers.sh
	pytest -n 3 --dist load -m "slow and not long" tests/ingest/test_forms.py
	pytest -n 3 --dist loadfile --no-loadscope-reorder -m "slow and not long and not athena and not real" --ignore tests/ingest/test_forms.py
	pytest -n 2 --dist loadfile -m "real and slow and not long" tests/real
	pytest -n 2 --dist loadfile -m "athena and slow and not long" tests/athena --ignore tests/athena/engine
	pytest -m "athena and slow and not long" tests/athena/engine

test-long: setup  ## Many random histories and crashes: two hours or more; prints cases an hour (real servers: as root or by sudo)
	@bash dev/servers.sh
	pytest -n 2 -m "long and not athena"
	pytest -m "long and athena" tests/athena/engine

mutations: setup  ## Break ingest in one place at a time, on a copy, and list the test that notices: docs/mutations.md
	python -m dev.mutations

test-fast: setup  ## The tests that need no Spark
	pytest -m "not (spark or real or systems or slow or long or athena)"

lint: setup  ## ruff, which package of ingest imports which, mypy, sqlfluff, dbt parse, the rules of dbt-project-evaluator, affected_by against the queries, what Athena refuses, cfn-lint
	@$(MAKE) --no-print-directory --jobs 2 lint-python lint-models

lint-python:
	ruff check .
	ruff format --check .
	lint-imports
	mypy

lint-models:
	dbt --quiet parse --no-partial-parse --warn-error
	python -m ci.rules
	python -m dev.affected --check
	python -m ci.athena
	cfn-lint deploy/aws/storage.yml deploy/aws/catalog.yml deploy/aws/access.yml
	sqlfluff lint --disable-progress-bar models analyses tests/dbt

format: setup  ## Let ruff and sqlfluff write what they can mend
	ruff check --fix .
	ruff format .
	sqlfluff fix --disable-progress-bar models analyses tests/dbt

docs: setup  ## dbt's documentation site into target/ (dbt docs serve shows it)
	@python -m dev.site

slim: setup  ## What this branch changes, built beside main's tables and compared with them (NAME=42; main's manifest in LAKE_HOME/state)
	python -m ci.slim $(if $(NAME),--name $(NAME))

nightly: setup  ## A day's job: freshness, a build, what failed of it once more, documentation; posts failures to LAKE_WEBHOOK
	python -m ci.nightly

bench: setup  ## List the benches: what each compares, and its time (NAME=latency runs one, ARGS="--count 10" are its options)
	@python -m bench $(NAME) $(ARGS)

packages: setup  ## Fetch the dbt packages again (from DBT_PACKAGES_FROM, a path or git URL, where it is set)
	python dev/dbt_packages.py --again

lock:  ## Pin the Python dependencies anew, with hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --no-emit-index-url --custom-compile-command "make lock" pyproject.toml -o requirements.lock

clean:  ## Remove the lake, the environment and all that was built
	@[ ! -d .lake/servers ] || [ ! -e $(BIN)/python ] || LAKE_HOME=.lake python -m dev.chain down
	rm -rf .lake .venv target logs dbt_packages .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
