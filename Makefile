# Each target sets up what it needs: a machine with Python 3.11-3.13, make and Java 17 is enough.

.PHONY: help setup demo test test-core test-system check lock clean
.DEFAULT_GOAL := help

BIN := .venv/bin

help:
	@echo "make setup   .venv with all that is needed; every other target does it too"
	@echo "make demo    10,000 members driven by PySpark, deploys, a kill -9, a page (3 minutes)"
	@echo "make demo MEMBERS=1000  the short one: a thousand members, a kill -9, a report"
	@echo "make test    all but the system tests (or TESTS='tests/storage -k rot': pytest's arguments)"
	@echo "make test-system  tests on several hosts, and beside Apache Kafka and Jaeger"
	@echo "make test-core  the pure parts in about a minute: run it while you work"
	@echo "make check   format, lint, strict types, house rules"
	@echo "make lock    renew requirements.lock from pyproject.toml"
	@echo "make clean   remove what the targets made"

setup: .setup

demo: .java .setup
	@$(BIN)/python -m bench.demo $(if $(MEMBERS),--members $(MEMBERS))

test: .java .setup
	@.ci/test $(TESTS)

test-system: .java .setup
	@.ci/test-system

test-core: .setup
	@.ci/test-core

check: .setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_house_rules.py

lock: .setup
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras \
		--generate-hashes --no-header --no-annotate --upgrade pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .deps rollcall-data rollcall-demo.html

.PHONY: .java .setup
.java:
	@.ci/need-java

.setup:
	@.ci/setup
