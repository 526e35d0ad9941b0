# Thin: cargo does the work.

.PHONY: build test demo

# Always under this directory, wherever CARGO_TARGET_DIR points.
build:
	cargo build --release --locked --target-dir target

test:
	scripts/setup.sh
	cargo test --workspace --locked

demo:
	scripts/setup.sh
	$(MAKE) --no-print-directory build
	scripts/demo.sh
