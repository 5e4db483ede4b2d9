# The chores. `make run` and `make test` need nothing done before them.

PROFILE := ci
SUNABA := target/$(PROFILE)/sunaba

.PHONY: run build test test-all soak bench docs lint lint-all fmt setup setup-test setup-all release

run: setup build ## build, make a demonstration repository, run a task on it, stay up
	$(SUNABA) demo

build:
	cargo build --quiet --profile $(PROFILE) --bin sunaba --bin sunaba-worker

test: setup-test ## everything CI runs, with the counts at the end
	cargo run --quiet --profile $(PROFILE) -p xtask -- test

test-all: setup-all ## the same with the agents that take minutes
	SUNABA_ALL_AGENTS=1 cargo run --quiet --profile $(PROFILE) -p xtask -- test

soak: setup-test build ## the fault and random suites for hours instead of a minute
	SUNABA_BUSY_SECONDS=60 SUNABA_KILLS=$${SUNABA_KILLS:-50} \
	SUNABA_SANDBOX_KILLS=$${SUNABA_SANDBOX_KILLS:-500} SUNABA_SANDBOX_SECONDS=$${SUNABA_SANDBOX_SECONDS:-1800} \
	SUNABA_CONTAINER_KILLS=$${SUNABA_CONTAINER_KILLS:-100} SUNABA_CONTAINER_SECONDS=$${SUNABA_CONTAINER_SECONDS:-1800} \
	SUNABA_CLUSTER_KILLS=$${SUNABA_CLUSTER_KILLS:-1000} SUNABA_CLUSTER_SECONDS=$${SUNABA_CLUSTER_SECONDS:-7200} \
	SUNABA_RECONNECTS=$${SUNABA_RECONNECTS:-10000} \
	SUNABA_FLAKY_SECONDS=$${SUNABA_FLAKY_SECONDS:-1800} \
	SUNABA_AWAY_SECONDS=$${SUNABA_AWAY_SECONDS:-600} SUNABA_AWAY_SANDBOXES=$${SUNABA_AWAY_SANDBOXES:-20} \
	cargo test --profile $(PROFILE) -p sunaba -p sunaba-store-sqlite -- --nocapture kill busy cluster away flaky

bench: setup-test release ## the speeds of the design, beside the limits of what they stand on; BENCH="--only pg-ingest"
	cargo run --quiet --release --bin sunaba-bench -- $(BENCH)

# Where the worker is looked for, whatever else is set.
release bench: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/static-worker
release bench: export CARGO_TARGET_DIR := $(CURDIR)/target

release: ## one program that carries its (static) worker: target/release/sunaba
	env -u CARGO_BUILD_TARGET cargo build --quiet --release --bin sunaba-worker
	env -u CARGO_BUILD_TARGET SUNABA_EMBED_WORKER="$(CURDIR)/target/release/sunaba-worker" cargo build --quiet --release --bin sunaba

lint:
	cargo fmt --all --check
	cargo clippy --profile $(PROFILE) --workspace --all-targets -- -D warnings
	cargo run --quiet --profile $(PROFILE) -p xtask -- tidy

lint-all: lint ## also what needs tools that take minutes to build
	command -v cargo-deny >/dev/null || cargo install --quiet cargo-deny
	cargo deny check bans licenses sources

docs: ## the tables of docs/agents.md, from what the tests find
	SUNABA_UPDATE_DOCS=1 cargo test --quiet --profile $(PROFILE) -p sunaba-types --lib agents::table

fmt:
	cargo fmt --all

setup:
	@scripts/setup run

setup-test:
	@scripts/setup test

setup-all:
	@scripts/setup all
