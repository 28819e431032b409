# Everything that is done with this repository, as one word each: `make` alone lists the words.
# Needed: Rust (rustup), Python >= 3.10, gcc and make. All else goes into .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PROFILE ?= release
# The stable ABI starts at Python 3.11 here (the buffer protocol); 3.10 gets a wheel of its own.
ABI := $(shell $(PYTHON) -c 'import sys; print("--no-default-features" if sys.version_info < (3, 11) else "")')
SOURCES := $(shell find crates kernels -name '*.rs' -o -name Cargo.toml -o -name '*.cu*' 2>/dev/null) \
	$(shell find python -name '*.py' -o -name '*.pyi') Cargo.toml Cargo.lock pyproject.toml

# The kernels' compiler: once .venv-cuda exists, every build embeds packs of machine code. Without it the build
# looks for nvcc in CUDA_HOME and PATH, and without any NVRTC compiles kernels when they are first used.
CUDA_VENV ?= .venv-cuda
ifndef OXMLX_NVCC
  NVCC := $(firstword $(wildcard $(CURDIR)/$(CUDA_VENV)/lib/python3*/site-packages/nvidia/cu13/bin/nvcc))
  ifneq ($(NVCC),)
    export OXMLX_NVCC := $(NVCC)
  endif
endif
# Architectures of a release's packs. Development and CI need one.
ARCHS ?= 75,80,86,89,90,100,120
BUNDLE := dist/gpu-bundle

.DEFAULT_GOAL := help
.PHONY: help demo test check bench wheel docs rust-example format clean build
.PHONY: cuda-compiler kernels kernels-with-compiler wheel-cuda gpu-bundle bundle-with-compiler test-gpu

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

# The stamp carries the profile, so that switching it rebuilds.
$(VENV)/.built-$(PROFILE): $(VENV)/.ready $(wildcard $(CUDA_VENV)/.ready) $(SOURCES)
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

$(CUDA_VENV)/.ready: requirements-cuda.txt
	rm -rf $(CUDA_VENV)
	$(PYTHON) -m venv $(CUDA_VENV)
	$(CUDA_VENV)/bin/python -m pip install --quiet -r requirements-cuda.txt
	touch $@

cuda-compiler: $(CUDA_VENV)/.ready ## Install the pinned compiler of the kernels into .venv-cuda.

# These call make again, since the compiler may have been installed only now.
kernels: $(CUDA_VENV)/.ready ## Compile every kernel for ARCHS, without a GPU.
	$(MAKE) --no-print-directory kernels-with-compiler

kernels-with-compiler:
	cargo run --quiet -p xtask -- kernels --arch $(ARCHS)

wheel-cuda: $(CUDA_VENV)/.ready ## Build a release wheel with packs for ARCHS into dist/.
	OXMLX_CUDA_ARCHS=$(ARCHS) $(MAKE) --no-print-directory wheel

gpu-bundle: $(CUDA_VENV)/.ready ## Put the wheel, tests and benches into dist/gpu-bundle, for a machine without Rust.
	$(MAKE) --no-print-directory bundle-with-compiler

bundle-with-compiler: $(VENV)/.ready
	rm -rf $(BUNDLE)
	mkdir -p $(BUNDLE)
	$(BIN)/maturin build --release --interpreter $(BIN)/python $(ABI) --out $(BUNDLE)
	cp -r tests examples benches docs pyproject.toml README.md LICENSE $(BUNDLE)/
	cp tests/gpu/run.sh $(BUNDLE)/run.sh
	cp tests/gpu/bundle.mk $(BUNDLE)/Makefile
	rm -rf $(BUNDLE)/tests/rust $(BUNDLE)/benches/rust
	find $(BUNDLE) -name __pycache__ -prune -exec rm -rf {} +
	cargo run --quiet -p xtask -- kernels --list > $(BUNDLE)/kernels.txt
	@du -sh $(BUNDLE)
	@test "$$(du -sm $(BUNDLE) | cut -f1)" -lt 40 || { echo "the bundle is larger than 40 MiB" >&2; exit 1; }

test-gpu: build ## Run the Python tests on the GPU of this machine.
	tests/gpu/run.sh --python $(BIN)/python test

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
	rm -rf $(VENV) $(CUDA_VENV) dist out .pytest_cache .ruff_cache .mypy_cache
