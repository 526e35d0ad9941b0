# Thin: cargo does the work.

.PHONY: build test demo demo-node demo-cluster pictures book

# Always under this directory, wherever CARGO_TARGET_DIR points.
build:
	scripts/ui.sh if-possible
	cargo build --release --locked --target-dir target
	target/release/godwit man target/release/man
	mkdir -p target/release/completions
	target/release/godwit completions bash >target/release/completions/godwit.bash
	target/release/godwit completions zsh >target/release/completions/_godwit
	target/release/godwit completions fish >target/release/completions/godwit.fish

test:
	scripts/setup.sh
	cargo test --workspace --locked

demo:
	scripts/setup.sh
	$(MAKE) --no-print-directory build
	scripts/demo.sh

demo-node:
	scripts/setup.sh
	$(MAKE) --no-print-directory build
	scripts/demo-node.sh

demo-cluster:
	scripts/setup.sh
	$(MAKE) --no-print-directory build
	scripts/demo-cluster.sh

# The pictures of docs/page.md.
pictures:
	scripts/setup.sh
	scripts/ui.sh deps
	cargo build --locked
	GODWIT=$${CARGO_TARGET_DIR:-target}/debug/godwit node ui/tests/walk.mjs docs/page

# The documents as a book, in target/book.
book:
	@command -v mdbook >/dev/null || { echo "make book: mdbook is missing; get it with: cargo install --locked mdbook" >&2; exit 1; }
	mdbook build docs
