# Everything that is done with this repository, as one word each: `make` alone lists the words.
# Needed: Rust (rustup), Python >= 3.10, gcc and make. All else goes into .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PROFILE ?= release
# The stable ABI starts at Python 3.11 here (the buffer protocol); 3.10 gets a wheel of its own.
ABI := $(shell $(PYTHON) -c 'import sys; print("--no-default-features" if sys.version_info < (3, 11) else "")')
SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name '*.cu*' 2>/dev/null) \
	$(shell find python -name '*.py' -o -name '*.pyi') Cargo.toml Cargo.lock pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help demo test check bench wheel docs rust-example format clean build

help: ## List the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

# The stamp carries the profile, so that switching it rebuilds.
$(VENV)/.built-$(PROFILE): $(VENV)/.ready $(SOURCES)
	rm -rf $(VENV)/wheels
	$(BIN)/maturin build --profile $(PROFILE) --interpreter $(BIN)/python $(ABI) --out $(VENV)/wheels
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps $(VENV)/wheels/*.whl
	rm -f $(VENV)/.built-*
	touch $@

build: $(VENV)/.built-$(PROFILE) ## Build the wheel and install it into .venv.

demo: build ## Train, save, load and judge a small digit classifier; pictures go to out/.
	$(BIN)/python examples/digits.py

test: build ## Run the Rust and the Python tests (no GPU needed).
	cargo test --workspace --exclude oxmlx-python --quiet
	$(BIN)/python -m pytest

check: build ## Formatting, lints, types and the mirror rule; changes nothing.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy.stubtest oxmlx._core --allowlist tests/stubtest-allow.txt --ignore-unused-allowlist
	OXMLX_PYTHON=$(BIN)/python cargo run --quiet -p xtask -- stubs --check
	cargo run --quiet -p xtask -- mirror
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo "cargo-deny is not installed: skipped"; fi

format: $(VENV)/.ready ## Format the Rust and the Python code in place.
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build ## Measure the engine against numpy (and official MLX, where it is installed).
	cargo bench -p oxmlx --bench engine
	@if ls benches/python/*.py >/dev/null 2>&1; then for f in benches/python/*.py; do $(BIN)/python $$f; done; fi

wheel: $(VENV)/.ready ## Build a release wheel into dist/.
	$(BIN)/maturin build --release --interpreter $(BIN)/python $(ABI) --out dist

docs: ## Build the Rust documentation.
	cargo doc --workspace --exclude oxmlx-python --no-deps

# The images come with scikit-learn; the training itself needs no Python.
out/digits.npz: $(VENV)/.ready
	mkdir -p out
	$(BIN)/python -c "import numpy as np; from sklearn.datasets import load_digits; d = load_digits(); \
		np.savez('$@', x=(d.images / 16).astype(np.float32), y=d.target.astype(np.int32))"

rust-example: out/digits.npz ## Run the Rust example: the same training, without Python.
	cargo run --release --example digits

clean: ## Remove everything that was built.
	cargo clean
	rm -rf $(VENV) dist out .pytest_cache .ruff_cache .mypy_cache
