# Thin: cargo does the work.

.PHONY: book build portable static check test python demo demo-node demo-cluster demo-distribute demo-build install package pictures

PREFIX ?= /usr/local

# Always under this directory, wherever CARGO_TARGET_DIR points.
build:
	scripts/ui.sh if-possible
	cargo build --release --locked --target-dir target
	scripts/man.sh target/release/godwit target/release/man
	mkdir -p target/release/completions
	target/release/godwit completions bash >target/release/completions/godwit.bash
	target/release/godwit completions zsh >target/release/completions/_godwit
	target/release/godwit completions fish >target/release/completions/godwit.fish

# For other machines, in target/portable: Linux with glibc 2.28 (RHEL 8) or later, and one program without any library.
portable:
	scripts/portable.sh glibc

static:
	scripts/portable.sh static

# While a change is made: format, lints, unit tests, tests that start no program, and the house rules, which are tests of xtask.
check:
	scripts/ui.sh check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	scripts/test.sh --lib --bins $(addprefix --test ,$(pure))

# Tests of formats, digests and generated pages, which need no database and no file system. A name stands for the tests of this name in
# every crate.
pure = corpus golden round_trip digest journal_corpus manifest pool pages

test:
	scripts/setup.sh
	scripts/test.sh

# The Python client, with the program of a debug build.
python:
	cargo build --locked
	scripts/python.sh

# The demonstrations need no fast program: they are built without what takes most of the time of a release.
demo: demo-build
	GODWIT=$(CURDIR)/target/demo/godwit scripts/demo.sh

demo-node: demo-build
	GODWIT=$(CURDIR)/target/demo/godwit scripts/demo-node.sh

demo-cluster: demo-build
	GODWIT=$(CURDIR)/target/demo/godwit scripts/demo-cluster.sh

demo-distribute: demo-build
	GODWIT=$(CURDIR)/target/demo/godwit scripts/demo-distribute.sh

demo-build:
	scripts/setup.sh demo
	cargo build --profile demo --locked --target-dir target

# The program without its debug information, its man pages and completions.
install: build
	scripts/stripped.sh target/release/godwit target/release/stripped/godwit
	install -D -m 755 target/release/stripped/godwit $(DESTDIR)$(PREFIX)/bin/godwit
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 target/release/man/* $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 target/release/completions/godwit.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/godwit
	install -D -m 644 target/release/completions/_godwit $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_godwit
	install -D -m 644 target/release/completions/godwit.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/godwit.fish

package: build
	scripts/package.sh

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
