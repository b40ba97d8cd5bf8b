# Two commands for everybody: `make lab` opens the course, `make test` proves it.
# Both do all of their own set-up, and may be repeated without harm.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: lab check test test-all test-rest test-long test-torch notebooks site format clean help FORCE

help:
	@echo "make lab        open the course in JupyterLab; PYTORCH=cuda for an NVIDIA GPU, 3 GB to download"
	@echo "make check      check what you have changed, in one to four minutes"
	@echo "make test       the gate: every lesson, exercise and question, in about 10 minutes on 2 cores"
	@echo "make test-all   the gate and the rest of the tests, as CI runs them: about 23 minutes"
	@echo "make test-long  what takes an hour: a class of 500, an older instruction set, a first \`make lab\`"
	@echo "make test-torch TORCH=2.15.0   run what depends on PyTorch with another version of it"
	@echo "make notebooks  build notebooks/, exercises/ and solutions/ from sources/"
	@echo "make site       build the website from the stored notebooks into build/site/, executing nothing"
	@echo "make format     let ruff format the Python sources"
	@echo "make clean      remove the virtual environment and caches (never your workspace)"

lab: $(VENV)/.lab
	@$(BIN)/amp-lessons lab $(ARGS)

# `make test` is the gate. `make test-all` runs the gate and then the rest, nothing twice: it's what CI
# runs. `make test-rest` is for those who have just run the gate. `make test-long` takes an hour and
# more and belongs to neither.
test: $(VENV)/.tests
	@$(BIN)/python tools/run_tests.py gate $(ARGS)

test-all: test
	@$(BIN)/python tools/run_tests.py rest $(ARGS)

test-rest: $(VENV)/.tests
	@$(BIN)/python tools/run_tests.py rest $(ARGS)

test-long: $(VENV)/.tests
	@$(BIN)/python tools/run_tests.py long $(ARGS)

# What a change concerns: `make check`, `make check SINCE=HEAD~3`.
check: $(VENV)/.authors
	@$(BIN)/python tools/check.py $(if $(SINCE),--since $(SINCE)) $(ARGS)

# In an environment of its own below .venvs, which is kept. `ARGS=-- tests/amp/test_policy.py` runs less.
test-torch:
	@$(PYTHON) tools/test_torch.py "$(TORCH)" $(ARGS)

notebooks: $(VENV)/.authors
	$(BIN)/python tools/build_notebooks.py

# `ARGS="--repository owner/name --ref v0.1.0"` adds links to Colab, Binder and Codespaces.
site: $(VENV)/.authors
	$(BIN)/python tools/build_site.py $(ARGS)

format: $(VENV)/.authors
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format . amp_lessons/exercises/*/harness*.py

# tools/install.py knows in milliseconds whether there is anything to do, so it is always asked.
$(VENV)/.lab $(VENV)/.authors $(VENV)/.tests: FORCE
	@$(PYTHON) tools/install.py $(patsubst .%,%,$(notdir $@)) --venv $(VENV)

FORCE:

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
