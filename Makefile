# make recommend   the main job: predict, check, measure, compare, recommend, patch -> out/
# make test        the tests: 9 to 12 minutes on two CPUs, set-up included
# make test-slow   the slow tests; UNTIL=SECONDS since 1970 skips what has not begun then
# make validate    the models against public measurements; models/accuracy.csv, ranges.csv from them
# make cross-validate   the models against what this machine measures (some 20 minutes)
# make mutants     every variant's code changed in every way that we know, and what finds it (hours)
# make streams     what the uncertainty of measurements is worth: loops of known cost, 500 times each
# make sanitize    the harness with AddressSanitizer and UndefinedBehaviorSanitizer, where it holds jobs
# make kit         what measures on machines without Python or compilers: out/loopwright-kit.tar.gz
# make mca         llvm-mca's command line by our simulator, one static program: out/loopwright-mca
# make explorer    the loop explorer, one page that needs no server: out/explorer/index.html
# make golden      writes down what the simulator answers now; the tests hold it to that
# make bench       how fast the models answer
# make bench-record   the same, kept in benchmarks/record
# make self-test   what measurements on this machine are worth: loops of known cost
# make verify-boot boots kernels with each target's patch, and those of scan, under QEMU (about 15 minutes at first)
# make verify-kmod loads the kernel module in guests under QEMU (about 15 minutes at first)
# All set up what they need first; a second run does not set up again.
# TREE=path names the Linux tree to patch; left out, Debian's linux-source-6.12 is fetched once.

TREE ?=
OUT ?= out
LOOPWRIGHT = .venv/bin/loopwright
C_SOURCES = $(shell git ls-files 'harness/*.c' 'harness/*.h' 'kernels/*.c' 'kernels/*.h')

# What begins as a script of sh or bash does.
SCRIPTS = $(shell git ls-files | xargs grep -lE '^\#!.*/(env )?(ba|da)?sh$$' 2>/dev/null)

# Tests wait now and then for programs that they start, and each worker collects all tests anew.
WORKERS = $(shell echo $$((3 * $$(nproc) / 2)))
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Python's bytecode is kept even where the environment forbids it: tests start Python some hundred times,
# and each would compile pandas and all the others anew, which takes it two seconds more.
export PYTHONDONTWRITEBYTECODE =

CARGO = cargo $(1) --manifest-path models/pipeline/Cargo.toml

.PHONY: help setup kit mca explorer recommend tests-setup test test-slow verify-boot verify-kmod validate golden cross-validate \
	streams mutants sanitize bench bench-record lint format \
	notebooks notebooks-executed self-test clean

help:
	@sed -n 's/^# //p' Makefile

setup:
	@scripts/setup

recommend: setup
	$(LOOPWRIGHT) report -o $(OUT) --patch $(if $(TREE),--tree '$(TREE)')

# Without root, or where there is no such package, the tests that need a browser say so and skip.
tests-setup:
	@scripts/setup --tests || { scripts/setup && echo 'no browser: pages are not opened by the tests'; }

# Files of tests that measure: collecting the others would take longer than some of these tests.
MEASURING = $(shell grep -rl --include='test_*.py' 'pytest.mark.measures' tests)

# Bytecode of packages and tests is made beside the simulator's tests, once and not by each worker.
test: tests-setup
	@.venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 & \
	PROPTEST_CASES=32 $(call CARGO,test) --profile tests --locked --quiet && wait
	.venv/bin/python -m pytest -m 'not slow and not measures' $(PARALLEL)
	.venv/bin/python -m pytest -m 'measures and not slow' $(MEASURING)

test-slow: tests-setup
	PROPTEST_CASES=400 $(call CARGO,test) --profile tests --locked --quiet any_
	LOOPWRIGHT_TESTS_UNTIL=$(UNTIL) .venv/bin/python -m pytest -m 'slow and not measures' $(PARALLEL)
	LOOPWRIGHT_TESTS_UNTIL=$(UNTIL) .venv/bin/python -m pytest -m 'slow and measures'

mutants: setup
	.venv/bin/python validation/mutants/search.py -o validation/mutants/search.md

streams: setup
	.venv/bin/python validation/streams.py -o validation/streams.md

sanitize: setup
	.venv/bin/python -m pytest tests/machine/test_sanitize.py

kit: setup
	@mkdir -p $(OUT)
	$(LOOPWRIGHT) kit -o $(OUT)/loopwright-kit.tar.gz

mca:
	@scripts/setup --system-only
	@mkdir -p $(OUT)
	RUSTFLAGS='-C target-feature=+crt-static' $(call CARGO,build) --release --locked --features mca \
		--bin loopwright-mca --target $(shell rustc -vV | sed -n 's/^host: //p')
	cp models/pipeline/target/*/release/loopwright-mca $(OUT)/

explorer: setup
	@command -v npm >/dev/null || { echo 'make explorer: npm is missing; install nodejs and npm'; exit 2; }
	@if command -v rustup >/dev/null; then rustup target add wasm32-unknown-unknown; fi
	$(call CARGO,build) --profile wasm --locked --lib --features wasm --target wasm32-unknown-unknown
	cd explorer && npm ci --silent && npm run --silent lint
	.venv/bin/python explorer/cores.py | node explorer/build.mjs \
		models/pipeline/target/wasm32-unknown-unknown/wasm/loopwright_pipeline.wasm $(OUT)/explorer

validate: setup
	.venv/bin/python validation/accuracy.py
	.venv/bin/python validation/host.py
	.venv/bin/python validation/record.py
	.venv/bin/python validation/host_calls.py
	.venv/bin/python validation/guest_rows.py
	.venv/bin/python validation/ranges.py
	.venv/bin/python validation/threads.py

golden: setup
	.venv/bin/python validation/golden.py

cross-validate: setup
	.venv/bin/python validation/host.py --measure
	.venv/bin/python validation/host_calls.py --measure

bench: setup
	.venv/bin/python benchmarks/models.py

bench-record: setup
	.venv/bin/python benchmarks/keep.py

self-test: setup
	$(LOOPWRIGHT) self-test

verify-boot: setup
	@scripts/setup --boot
	.venv/bin/python -m pytest -m boot tests/linux/test_verify_boot.py tests/scanning/test_scan_boot.py

verify-kmod: setup
	@scripts/setup --boot
	.venv/bin/python -m pytest tests/portable/test_kmod*.py

lint: setup
	@scripts/setup --lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-cache --no-logo
	.venv/bin/mypy
	.venv/bin/stubtest --mypy-config-file pyproject.toml --ignore-missing-stub loopwright_pipeline
	.venv/bin/mypy tests --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --no-check-untyped-defs
	@.venv/bin/clang-format --dry-run -Werror $(C_SOURCES)
	$(call CARGO,fmt) --check
	$(call CARGO,clippy) --quiet --all-targets --all-features -- -D warnings
	.venv/bin/shellcheck $(SCRIPTS)

format: setup
	@scripts/setup --lint
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	.venv/bin/clang-format -i $(C_SOURCES)
	$(call CARGO,fmt)

notebooks: setup
	.venv/bin/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks

notebooks-executed: setup
	.venv/bin/python notebooks/execute.py

clean:
	rm -rf build out
