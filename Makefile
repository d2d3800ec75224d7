# `make check` is the gate, here and in CI. `make demo` shows deskmate at work. Nothing here needs root.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done)
BIN := .venv/bin
TOO_OLD := deskmate needs Python 3.11 or newer
REQUIRE := $(if $(DESKMATE_TESTS_REQUIRE),--require $(DESKMATE_TESTS_REQUIRE))
# Much of a test is waiting: two at a time, each with a Redis of its own. `make test JOBS=0` runs them one after the other
JOBS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(REQUIRE)

.PHONY: check setup demo test kill-sweep chaos soak figures forged model machines fuzz sabotage fix builtin-hashes lock bench clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := check

check: .venv/.test ## everything that must hold before a commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

setup: .venv/.test ## the virtual environment, with what tests need

demo: .venv/.core ## a message in, a reply out: real gateway, real worker, a scripted model
	@$(BIN)/deskmate demo

test: .venv/.test
	$(PYTEST)

model: .venv/.test ## all orders in which gateways, workers and Redis can act, with up to two faults; takes half an hour
	$(BIN)/python -m tests.gateway.conversation.model

kill-sweep: .venv/.test ## each message of a turn, and a process killed at it: `.venv/bin/python -m tests.sweep --help`
	@$(BIN)/python -m tests.sweep $(if $(SEED),--seed $(SEED)) $(if $(KINDS),--kinds $(KINDS)) \
		$(if $(COUNT),--count $(COUNT)) $(if $(HOW),--how $(HOW)) $(if $(WAITS),--waits $(WAITS))

MACHINES := $(patsubst tests/machines/test_%.py,%,$(sort $(wildcard tests/machines/test_*.py)))
# `make machines EXAMPLES=10000 SEED=7`; a machine alone: `make machines ONLY=outbox`
machines: .venv/.test ## chance against a plain model, on a real Redis: many more, and other, examples than the tests have
	$(if $(filter-out $(MACHINES),$(ONLY)),$(error ONLY=$(ONLY): not one of $(MACHINES)))
	$(BIN)/python -m pytest -n $(JOBS) $(or $(ONLY:%=tests/machines/test_%.py),tests/machines) --timeout 0 \
		--examples $(or $(EXAMPLES),200) --hypothesis-seed $(or $(SEED),$(shell date +%s))

# `make fuzz SECONDS=600 TARGETS="url split"`
fuzz: .venv/.test ## bytes that nobody wrote at each reader of what others write, for so many seconds each
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz $(or $(SECONDS),60) $(TARGETS)

chaos: .venv/.test ## a crowd talks while processes and Redis are killed: `.venv/bin/python -m tests.chaos --help`
	@$(BIN)/python -m tests.chaos chaos $(if $(SEED),--seed $(SEED)) $(if $(MESSAGES),--messages $(MESSAGES)) \
		$(if $(CONVERSATIONS),--conversations $(CONVERSATIONS)) $(if $(RATE),--rate $(RATE))

soak: .venv/.test ## an hour (MINUTES=60) of even load: memory, keys and descriptors stay as they are
	@$(BIN)/python -m tests.chaos soak $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(RATE),--rate $(RATE))

figures: .venv/.test ## an outage of Redis, two workers beside one, loud and quiet channels, two machines on one Redis
	@$(BIN)/python -m tests.chaos figures $(if $(SEED),--seed $(SEED))

forged: .venv/.test ## 100,000 webhooks (COUNT=) that prove nothing, or hold what no platform says: none accepted, none answered 5xx
	@$(BIN)/python -m tests.forged $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

sabotage: .venv/.test ## each guard is taken out of a copy, one by one: it has to be found missing; takes twenty minutes
	$(BIN)/python -m tests.sabotage

fix: .venv/.test ## repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.test ## figures, as ratios within one run
	@missed=0; for bench in bench/[!_]*.py; do echo "== $$bench"; \
		$(BIN)/python -m "bench.$$(basename "$$bench" .py)" || missed=1; done; exit $$missed

builtin-hashes: .venv/.core ## the list that the shipped skills are verified by, after one was changed
	$(BIN)/python -m skills.seal

lock: ## the newest versions that pyproject.toml allows, into constraints.txt
	@rm -rf .venv-lock
	"$(PYTHON)" -m venv .venv-lock
	.venv-lock/bin/python -m pip install -q --upgrade pip
	.venv-lock/bin/python -m pip install -q '.[search,speed,test]'
	.venv-lock/bin/python -m pip freeze --exclude deskmate > constraints.txt
	@sed -n "s/^ *'\(atheris==.*\)',$$/\1/p" pyproject.toml >> constraints.txt
	@LC_ALL=C sort -f -o constraints.txt constraints.txt
	@rm -rf .venv-lock build

clean:
	rm -rf .venv .venv-lock build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo '$(TOO_OLD); set PYTHON=/path/to/python3' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo '$(TOO_OLD), and this is none: PYTHON=$(PYTHON)' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) has no ensurepip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv

# An environment that was broken off while it was made, or that some other program made, may have no pip
.venv/.core: .venv/bin/python pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null 2>&1 || { \
		rm -rf .venv && $(MAKE) --no-print-directory .venv/bin/python; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.test: .venv/.core
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[speed,test]'
	@touch $@
