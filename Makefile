# Two commands for everybody: `make lab` opens the course, `make test` proves it.
# Both do all of their own set-up, and may be repeated without harm.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: lab test test-long test-torch notebooks environment format clean help FORCE

help:
	@echo "make lab        open the course in JupyterLab"
	@echo "make test       run every check of the course: the gate, about 18 minutes on 2 cores"
	@echo "make test-long  run what takes long: a class of 500, an older instruction set, a first \`make lab\`"
	@echo "make test-torch TORCH=2.15.0   run what depends on PyTorch with another version of it"
	@echo "make notebooks  build notebooks/, exercises/ and solutions/ from sources/"
	@echo "make format     let ruff format the Python sources"
	@echo "make clean      remove the virtual environment and caches (never your workspace)"

lab: $(VENV)/.lab
	@$(BIN)/amp-lessons lab $(ARGS)

# One thread a process: two test processes with two threads each spend their time in waiting. In
# the order of the files, for xdist's own order puts the few tests that take long at the end.
test: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check . amp_lessons/exercises/*/stage*.py
	$(BIN)/mypy & types=$$!; \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadscope --no-loadscope-reorder $(ARGS); \
	tests=$$?; wait $$types && exit $$tests

test-long: $(VENV)/.tests
	@echo "The long tests: four lessons on two instruction sets, \`make lab\` in a fresh clone, a class of"
	@echo "500, hostile notebooks with and without a sandbox, every exercise with fresh secret inputs, and"
	@echo "the workshops' cells: an hour and more. The gate is \`make test\`."
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long tests $(ARGS)

# In an environment of its own below .venvs, which is kept. `ARGS=-- tests/test_policy.py` runs less.
test-torch:
	@$(PYTHON) tools/test_torch.py "$(TORCH)" $(ARGS)

notebooks: $(VENV)/.tests
	$(BIN)/python tools/build_notebooks.py

environment: $(VENV)/.tests
	$(BIN)/python tools/sync_environment.py

format: $(VENV)/.tests
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format . amp_lessons/exercises/*/stage*.py

# tools/install.py knows in milliseconds whether there is anything to do, so it is always asked.
$(VENV)/.lab $(VENV)/.tests: FORCE
	@$(PYTHON) tools/install.py $(patsubst .%,%,$(notdir $@)) --venv $(VENV)

FORCE:

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
