# `make run` and `make test` do all set-up by themselves: a virtual environment with the versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/.ready
TESTS ?= tests

.PHONY: run test test-slow test-long test-ray check fix docs examples clean
.DELETE_ON_ERROR:

run: $(READY)
	@$(VENV)/bin/rampup run bcp-classical --preset quick

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 -m "not slow and not ray" $(TESTS)

test-slow: $(READY)
	$(VENV)/bin/python -m pytest -n 2 -m "slow and not long" $(TESTS)

test-long: $(READY)
	$(VENV)/bin/python -m pytest -n 2 -m "long and not ray" $(TESTS)

# On a cluster of separate processes on this machine; installs Ray first.
test-ray: $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(VENV)/bin/python -m pytest -m "ray and not long" tests/test_sweeps.py

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

fix: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The site, into build/site; the page of commands is written anew first.
docs: $(READY)
	@$(VENV)/bin/python scripts/commands_page.py
	@NO_MKDOCS_2_WARNING=true $(VENV)/bin/mkdocs build --strict --quiet
	@echo "Open build/site/index.html in a browser; the search needs a server: $(VENV)/bin/mkdocs serve"

# Runs tutorial and notebooks of docs/ and writes what came out into them; a few minutes.
examples: $(READY)
	@$(VENV)/bin/python scripts/run_tutorial.py
	@$(VENV)/bin/python scripts/run_notebooks.py

$(READY): pyproject.toml constraints.txt rampup_gymnasium.pth scripts/setup.sh
	@bash scripts/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
