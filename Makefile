# `make demo` and `make test` are all there is to know: each sets up what it needs, in this folder, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One worker more than cores: one of them mostly waits, for a JVM, a server or a clock.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || sysctl -n hw.ncpu) + 1 )))
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

# Tests and figures start hundreds of processes: each would compile lakelog anew.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help setup s3a demo collect test lint soak soak-maintain campaign readers spark-versions planted bench proto clean

help:
	@echo "make demo    a tour on real data: three writers, time travel, Spark, a lost log rebuilt (demo-lake/)"
	@echo "make test    the tests, of those that take long a quarter; LAKELOG_TURNS=every: all but the soak"
	@echo "make lint    ruff and strict mypy"
	@echo "make s3a     Spark's connector to S3 for the tests, from Maven Central (setup does it)"
	@echo "make soak    the long tests: a million histories, a million hostile objects, the large models"
	@echo "make soak-maintain  8 writers, readers and maintain in a loop, 10 minutes on local disk and on S3"
	@echo "make campaign random histories, killed and stopped processes, noted in campaign.csv: ARGS='--hours 2'"
	@echo "make readers three readers of the format, held against each other on 3,500 logs (needs Go)"
	@echo "make spark-versions  the tests of Spark with each version that lakelog serves, from PyPI"
	@echo "make planted bugs planted into the models, the simulator and the code: every one must be caught"
	@echo "make bench   the figures, beside the peer's"
	@echo "make proto   regenerate the wire code from proto/"
	@echo "make clean   remove what make has set up"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "lakelog needs Python 3.11 or newer: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up for the demo (lakelog, DuckDB and Spark; once, about two minutes) ..."
	@$(PIP) --editable '.[spark,duckdb]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up for the tests (Spark, the clouds on loopback, the peers; once, about three minutes) ..."
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

# Azurite, the one test server that comes from npm. Without npm its tests are skipped, except in CI.
$(VENV)/.node: tests/servers/package.json | $(BIN)/python
	@if command -v npm >/dev/null; then \
	  mkdir -p $(VENV)/node && cp $< $(VENV)/node/ && cd $(VENV)/node \
	  && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error \
	  && ln -sfn ../node/node_modules/.bin/azurite-blob ../bin/azurite-blob && touch ../.node; \
	else \
	  echo "There is no npm: the tests of Azure will be skipped."; \
	fi

# The test servers that are built: in Go and Java, once per machine, below ~/.cache. Without these their tests are
# skipped, except in CI.
$(VENV)/.servers: tests/servers/build.sh tests/servers/go.txt tests/servers/pom.xml | $(BIN)/python
	@sh $< $(VENV)/bin && touch $@ || true

# Hadoop's connector to S3, from Maven Central. Where that can't be reached its tests are skipped, except in CI.
$(VENV)/.s3a: spark/session.py | $(VENV)/.dev
	@$(BIN)/python tests/spark/fetch_s3a.py $(VENV)/ivy >$(VENV)/s3a.log 2>&1 && touch $@ \
	  || echo "hadoop-aws can't be fetched (see $(VENV)/s3a.log): the tests of Spark on S3A will be skipped."

s3a: $(VENV)/.s3a

demo: $(VENV)/.demo
	@$(BIN)/lakelog demo demo-lake

setup: $(VENV)/.dev $(VENV)/.node $(VENV)/.servers $(VENV)/.s3a

test: setup
	$(BIN)/python -m pytest -m "not long" --durations 40 \
	  --numprocesses $(WORKERS) -q $(ARGS)

# Pytest rewrites the assertions of 500 files: 10 s for each worker, were they not kept. What fails here fails there.
collect: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true

# What `make test` takes a sample of, whole, all tests of Spark, and 1,000 examples of each property instead of 15. On
# another seed each time; LAKELOG_SEED=<seed> make soak repeats one.
soak: setup
	LAKELOG_SEED=$${LAKELOG_SEED:-$$(date +%s)} \
	  LAKELOG_EXAMPLES=$${LAKELOG_EXAMPLES:-1000} \
	  $(BIN)/python -m pytest -q -m "long or hypothesis or spark" --timeout 0 $(ARGS)

soak-maintain: $(VENV)/.dev
	$(BIN)/python tests/maintenance/soak.py $(ARGS)

# Adds up over sessions: tests/running/campaign.csv is to be committed.
campaign: $(VENV)/.dev
	$(BIN)/python tests/running/campaign.py $(ARGS)

# The second reader's own tests, and the three readers on many logs; needs Go. SEED=<seed> make readers repeats a run.
readers: $(VENV)/.dev
	cd tests/second_reader && go test ./...
	$(BIN)/python tests/golden/three_readers.py --valid 500 --damaged 3000 --seed $${SEED:-$$(date +%s)}

# One of them: make spark-versions ARGS="4.1.4 --pytest '-n 0 -k partition'"
spark-versions: $(VENV)/.dev
	$(BIN)/python tests/spark/other_versions.py $(ARGS)

# mypy must see the package under its own name, whatever this folder is called.
lint: $(VENV)/.dev
	@mkdir -p $(VENV)/types && ln -sfn ../.. $(VENV)/types/lakelog
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

planted: $(VENV)/.dev
	$(BIN)/python tests/model/run.py
	$(BIN)/python tests/simulation/mutants.py
	$(BIN)/python tests/planted/run.py

bench: $(VENV)/.dev
	$(BIN)/python bench/run.py $(ARGS)

proto: $(VENV)/.dev
	$(BIN)/python catalog/wire/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info build
