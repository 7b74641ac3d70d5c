# Every target works on a fresh clone with Python 3.11 or newer, make and a package index: the first one that needs it builds a
# private environment in .venv from the lock files. Nothing outside this folder is touched. Plain make and POSIX shell, so that
# the old make of macOS runs it too.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
SEED ?= 7
DRIVES ?= 400
# A file of results, of random drives or mutants, goes on where it ends, so that 10000 drives may take several nights.
FIRST ?= 0
RESULTS ?=
MUTANTS ?= 20
PLOT ?= lap.png
ARGS ?=
PYTHON ?= python3.13 python3.12 python3.11 python3
# Only `make lock` uses it, and it is not needed to install: every file it names is checked by its hash.
UV := uv==0.13.8

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# A user's own packages must not reach the private environment.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH
unexport PYTHONHOME
# The tests start hundreds of daemons: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip --quiet
LOCKED := --require-hashes --only-binary=:all:
CHECKS := ruff format mypy imports dependencies

.PHONY: help
help: ## This list
	@echo "vehicled: targets of make"
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' Makefile
	@echo "Options: SEED=$(SEED)  PLOT=$(PLOT)  ARGS='more options of vehicled sim'  PYTHON=/path/to/python3"

.PHONY: sim
sim: $(VENV)/runtime.stamp ## Drive the 212 m car-park lap in simulation, in seconds
	@$(BIN)/vehicled sim --profile art --course lot17 --clock lockstep --seed $(SEED) --plot $(PLOT) $(ARGS)

.PHONY: first-vehicle
first-vehicle: $(VENV)/dev.stamp ## docs/first_vehicle.md with an emulated car: from an empty folder to the first lap, ten minutes
	@$(BIN)/python -m pytest --quiet -s -m "" -k first_lap tests/closed_loop/test_first_vehicle.py

.PHONY: sim-live
sim-live: $(VENV)/runtime.stamp ## The same lap in wall time, as on the road: 3.5 minutes, Ctrl-C stops the vehicle
	@# Status 130 is an operator's stop, and no failure; the shell must outlive it to say so.
	@trap : INT; $(BIN)/vehicled sim --profile art --course lot17 --clock wall --seed $(SEED) --plot $(PLOT) $(ARGS) || test $$? -eq 130

LEARN := $(VENV)/learn
.PHONY: learn
learn: $(VENV)/dev.stamp ## Train a network on drives of the MPC, and drive the same lap with both and with a linear law
	@rm -rf $(LEARN); mkdir -p $(LEARN)
	@$(BIN)/vehicled learn collect -o $(LEARN)/drives
	@$(BIN)/vehicled learn dataset $(LEARN)/drives -o $(LEARN)/data.parquet --features preview
	@$(BIN)/vehicled learn train $(LEARN)/data.parquet -o policy.onnx --plot policy.png --commands wheel_angle_rad --hidden 32,32 \
		--dagger 8 --course circle_r2_ccw --course circle_r2_cw --course square --course sine_tight
	@for controller in ./policy.onnx mpc linear; do \
		$(BIN)/vehicled sim --controller $$controller --quiet --log $(LEARN) --seed $(SEED) || exit 1; done

# One failed check does not hide the next: all run, in this order, and the verdict names every one that failed.
RUN_CHECKS = failed=; for check in $$checks; do \
	echo "== $$check"; $(MAKE) --no-print-directory --silent check-$$check || failed="$$failed $$check"; done; \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed" >&2; exit 1; fi; echo "all checks passed"

# Lint runs beside the tests, and its output comes after theirs. A shell makes its background jobs ignore Ctrl-C.
.PHONY: test
test: $(VENV)/dev.stamp ## Every check there is: lint and all tests
	@output=$(VENV)/lint.txt; failed=; \
	$(MAKE) --no-print-directory --silent lint >$$output 2>&1 & lint=$$!; trap 'kill $$lint; exit 130' INT; \
	echo "== pytest, and lint beside it"; $(MAKE) --no-print-directory --silent check-pytest || failed=" pytest"; \
	wait $$lint || failed=" lint$$(sed -n 's/^FAILED://p' $$output)$$failed"; cat $$output; \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed" >&2; exit 1; fi; echo "all checks and tests passed"

.PHONY: lint
lint: $(VENV)/dev.stamp ## ruff, mypy, the import contracts and the declared dependencies
	@checks="$(CHECKS)"; $(RUN_CHECKS)

.PHONY: check-ruff check-format check-mypy check-imports check-dependencies check-pytest
check-ruff: $(VENV)/dev.stamp
	@$(BIN)/ruff check --quiet
check-format: $(VENV)/dev.stamp
	@$(BIN)/ruff format --quiet --check
check-mypy: $(VENV)/dev.stamp
	@$(BIN)/mypy --no-error-summary
check-imports: $(VENV)/dev.stamp
	@$(BIN)/lint-imports --no-cache --no-logo
check-dependencies: $(VENV)/dev.stamp
	@$(BIN)/deptry --no-ansi vehicled drivers sim_backend >$(VENV)/dependencies.txt 2>&1 || { cat $(VENV)/dependencies.txt; exit 1; }
# Three workers for two processors: one of them begins with the drives in wall time, which wait most of their time.
check-pytest: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest --quiet -n 3 --dist loadgroup

.PHONY: bench
bench: $(VENV)/bench.stamp ## Measure this machine: every script of bench/
	@for script in bench/[a-z]*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

# Needs root, apt packages of the host (the command names them) and a package index. Not part of `make test`.
.PHONY: board
board: $(VENV)/dev.stamp ## The service on a real Debian with the real-time kernel, in a virtual machine. ARGS='access hardening', ARGS=--list, ARCH=arm64
	@$(BIN)/python -m bench.board_vm $(if $(ARCH),--arch $(ARCH)) $(ARGS)

# Needs podman or docker, and a registry or, with --packages, root and mmdebstrap. Not part of `make test`.
.PHONY: image
image: $(VENV)/runtime.stamp ## Daemon and simulator as a container image, built and tried. ARGS=--packages where no registry is reached
	@$(BIN)/python -m bench.container $(ARGS)

.PHONY: compiled
compiled: $(VENV)/runtime.stamp ## A wheel in dist/ with the hot path compiled for this Python; needs a C compiler and some minutes
	@HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(PIP) wheel --no-deps --wheel-dir dist .
	@echo "Install it in an environment of your own: pip install"; ls dist/vehicled-*-cp*.whl

# A method of a compiled class cannot be replaced on one object, as many unit tests do, so only the golden runs are the default.
.PHONY: test-compiled
test-compiled: $(VENV)/dev.stamp compiled ## The golden runs on the compiled wheel, in a copy of this checkout. ARGS='tests/property': others
	@rm -rf build/compiled && mkdir -p build/compiled && git ls-files -z | tar cf - --null -T - | tar xf - -C build/compiled
	@$(BIN)/python -m zipfile -e "$$(ls -t dist/vehicled-*-cp*.whl | head -1)" build/compiled
	@cd build/compiled && PYTHONPATH="$$PWD" "$(CURDIR)/$(BIN)/python" -m pytest --quiet -n 3 --dist loadgroup \
		$(or $(ARGS),tests/golden)

COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --only-binary :all: pyproject.toml

.PHONY: soak
soak: $(VENV)/dev.stamp ## The long tests, an hour of random faults, random drives of every vehicle, and all mutants of safety. DRIVES=400
	@HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest --quiet -n 3 --dist loadgroup -m "soak or hypothesis"
	@$(BIN)/python -m tests.soak $(ARGS)
	@$(MAKE) --no-print-directory random-drives
	@$(BIN)/python -m tests.mutation

.PHONY: random-drives
random-drives: $(VENV)/dev.stamp ## Only the random drives of make soak. DRIVES=400, FIRST=0, RESULTS=FILE to go on with
	@$(BIN)/python -m tests.random_drives --drives $(DRIVES) --first $(FIRST) $(if $(RESULTS),--out $(RESULTS))

.PHONY: mutants
mutants: $(VENV)/dev.stamp ## Change safety's source a little, many times: do the tests notice? MUTANTS=20 of each file; ARGS=FILE; all: RESULTS=FILE
	@$(BIN)/python -m tests.mutation $(or $(ARGS),$(if $(RESULTS),--results $(RESULTS),--sample $(MUTANTS) --seed $(SEED)))

# Zensical reads one folder, in which the pages have the places that they link to each other by.
.PHONY: docs
docs: $(VENV)/docs.stamp ## The documentation as a site in build/site, with every link checked
	@rm -rf build/source && mkdir -p build/source && cp docs/site.toml build/zensical.toml
	@git ls-files '*.md' ':!tests' ':!.ci' docs/img docs/examples docs/first_study.ipynb LICENSE | tar cf - -T - | tar xf - -C build/source
	@cd build && ../$(BIN)/zensical build --strict --clean && echo "open build/site/index.html"

.PHONY: figures
figures: $(VENV)/dev.stamp ## Measure the figures of the pages anew: fails beyond their scatter. WRITE=1 keeps them; KIND=, NAMES=
	@$(BIN)/python -m tests.figures $(if $(WRITE),--write) $(if $(KIND),--kind $(KIND)) $(NAMES)

.PHONY: golden
golden: $(VENV)/dev.stamp ## Record the golden runs of the replay anew
	@$(BIN)/python -m tests.golden.renew_replay

.PHONY: lock
lock: $(VENV)/dev.stamp ## Resolve all lock files anew: all platforms, with hashes, without index addresses
	@echo "resolving"
	@$(PIP) install "$(UV)"
	@$(COMPILE) --extra plot --extra view --extra maps --group build -o requirements.lock
	@$(COMPILE) --extra view --group build -c requirements.lock -o requirements-image.lock
	@$(COMPILE) --all-extras --group dev -c requirements.lock -o requirements-dev.lock
	@$(COMPILE) --group docs -c requirements-dev.lock -o requirements-docs.lock
	@$(COMPILE) --all-extras --group dev --group bench -c requirements-dev.lock -o requirements-bench.lock
	@echo "wrote requirements.lock and its siblings for -image, -dev, -docs and -bench; now run make test"

.PHONY: clean
clean: ## Remove the environment, caches and build results; logs stay
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d ! -path './.*' -prune -exec rm -rf {} +

# Built with the first Python of the list that is new enough and can make environments.
$(VENV)/bin/python:
	@chosen=; old=; bare=; \
	for python in $(PYTHON); do \
	  "$$python" -c 'import sys' >/dev/null 2>&1 || continue; \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { old="$$old $$python"; continue; }; \
	  "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || { bare="$$bare $$python"; continue; }; \
	  chosen=$$python; break; \
	done; \
	if [ -z "$$chosen" ]; then \
	  echo "vehicled needs Python 3.11 or newer with the modules venv and ensurepip. Looked for: $(PYTHON)." >&2; \
	  [ -z "$$old" ] || echo "Too old:$$old" >&2; \
	  [ -z "$$bare" ] || echo "Without venv or ensurepip:$$bare" >&2; \
	  echo "Debian, Ubuntu: apt install python3 python3-venv. Or name one: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "private environment in $(VENV) with $$("$$chosen" --version)"; \
	rm -rf $(VENV) && "$$chosen" -m venv $(VENV)

# Without build isolation: the build tools come from the lock file like everything else.
$(VENV)/runtime.stamp: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing the locked packages (half a minute or so, once)"
	@$(PIP) install $(LOCKED) -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements-dev.lock requirements-sdist.lock $(VENV)/runtime.stamp
	@echo "installing the locked tools of development (half a minute or so, once)"
	@$(PIP) install $(LOCKED) -r requirements-dev.lock
	@$(PIP) install --require-hashes --no-deps --no-build-isolation --no-binary=:all: -r requirements-sdist.lock
	@touch $@

$(VENV)/docs.stamp: requirements-docs.lock $(VENV)/runtime.stamp
	@echo "installing what makes the site"
	@$(PIP) install $(LOCKED) -r requirements-docs.lock
	@touch $@

$(VENV)/bench.stamp: requirements-bench.lock $(VENV)/dev.stamp
	@echo "installing what the benchmarks compare with (casadi is large)"
	@$(PIP) install $(LOCKED) -r requirements-bench.lock
	@touch $@
