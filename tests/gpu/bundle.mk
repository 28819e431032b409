# The words of a GPU bundle: a folder with the wheel, the tests and the benches, for a machine with a GPU, Python
# with numpy and pytest, and no Rust. `make gpu-bundle` in the repository makes it.

.DEFAULT_GOAL := help
.PHONY: help install doctor test-gpu poison demo sanitize bench long

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: ## Unpack the wheel into a folder; the other targets do it themselves.
	./run.sh install

doctor: ## Say what was found on this machine.
	./run.sh doctor

test-gpu: ## Run the tests on the GPU.
	./run.sh test

poison: ## Run them with device memory that is filled with 0xFF before and after use.
	./run.sh poison

demo: ## Train a small digit classifier; needs scikit-learn and pillow.
	./run.sh demo

sanitize: ## Run a small case for every kernel under compute-sanitizer.
	./run.sh sanitize

bench: ## Measure.
	./run.sh bench

long: ## Run the tests that take minutes, among them 100,000 training steps.
	./run.sh long
