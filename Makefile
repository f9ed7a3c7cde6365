# Commands for developers and CI. Each recipe calls one command that also works on its own.

PYTHON ?= python3
TOOLS := $(PYTHON) hack/tools
LOCAL := $(PYTHON) hack/local
CLUSTER_COMMAND := $(PYTHON) hack/cluster
CHECKS := $(PYTHON) hack/checks
CHARTS := $(patsubst %/Chart.yaml,%,$(wildcard charts/*/Chart.yaml))
CHART_TESTS := $(patsubst %/tests,%,$(wildcard charts/*/tests))
WORKFLOWS := $(wildcard .github/workflows/*.yaml)

RULES := $(wildcard dashboards/rules/*.rules.yaml)
RULE_TESTS := $(wildcard dashboards/tests/*.test.yaml)

# Shell files that git tracks or would add. Evaluated only when used.
SHELL_FILES = $(shell git grep --untracked -lE '^\#!/(usr/)?bin/(env )?(ba)?sh$$' -- ':!*.py' ':!*.md')

# Most tests wait for processes, so more run at once than there are CPUs. Files are not split: they share processes.
TEST_WORKERS ?= 3
PYTEST = $(TOOLS) run pytest --numprocesses=$(TEST_WORKERS) --dist=loadfile --override-ini=console_output_style=count $(PYTEST_FLAGS)

# A newer Clippy finds more. Findings are always shown but cause a failure only with CI's Rust version.
CLIPPY_FLAGS = $(if $(filter 1.95.%,$(shell rustc --version)),-D warnings)
space := $(subst ,, )

.DEFAULT_GOAL := help
.PHONY: help up down status logs cluster-up cluster-down cluster-status deploy undeploy e2e parts \
  postgres-up postgres-down check test test-all shake check-tools lint check-charts check-python clippy features test-rust test-jwt \
  test-processes test-nightly chaos chaos-long fuzz fuzz-long miri prose book fmt charts metrics settings dashboards check-dashboards loadtest \
  loadtest-suite loadtest-compare drill bench check-instructions soak release-dry-run images tools clean

help: ## Show the targets and variables
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@awk '/^##( |$$)/ {print substr($$0, 4)}' $(MAKEFILE_LIST)

##
## Variables of up, as in: make up REPLICAS=4
## INSTANCE also applies to down, status, logs, loadtest, clean, postgres-up and postgres-down.
##   REPLICAS            number of server replicas; by default one per CPU
##   PROFILE             local, the cargo profile that builds the server; release is faster but takes minutes to build
##   DASHBOARD_PORT      8070, the dashboard
##   GATEWAY_PORT        8080, for requests
##   ENVOY_ADMIN_PORT    9901
##   GATEWAY_STATS_PORT  9902
##   PROMETHEUS_PORT     9090
##   REPLICA_PORT        8100, the first replica's; the next ones count up
##   REPLICA_ADMIN_PORT  8200, the first replica's; the next ones count up
##   DATABASE            sqlite: a file that all replicas share; postgres: a PostgreSQL that up starts; none
##   MTLS                a folder with certificates, for mutual TLS between gateway and replicas: docs/mutual-tls.md
##   POSTGRES_PORT       5433; also for postgres-up
##   INSTANCE            default; use another name and other ports to run a second instance
## To run another service instead of the reference server, built with the dev profile:
##   SERVICE             its Cargo.toml; BIN=NAME if it has several binaries
##   SERVICES            or several folders with a Cargo.toml, separated by spaces, behind one gateway
##   BINARY              or a program; set RUNTIME=other if it does not use corelane-service, and HEALTH to its probe path
##   WATCH               1: build and roll out again when sources change
##
## Variables of cluster-up, cluster-down, deploy, undeploy and e2e
##   CLUSTER             local: two nodes on this machine, without Docker; vm: the same in QEMU; kind; or current: the current kubeconfig's cluster
## Variables of deploy and undeploy
##   NAMESPACE           corelane
##   RELEASE             corelane
##   VALUES              values files of charts/corelane, separated by commas; hack/cluster/values.yaml by default
##   PROFILE             local, the cargo profile of the images' programs; releases use image

# Some systems set such names in every environment, so only values that are passed to make count.
given = $(if $(filter command line,$(origin $(1))),$(addprefix --,$(2)) $(call quoted,$($(1))))
quoted = '$(subst ','\'',$(1))'

##@ Run

up: ## Start replicas, gateway and Prometheus as local processes; for another service: SERVICE=path/to/Cargo.toml
	@$(LOCAL) up $(if $(filter command line,$(origin SERVICES)),$(SERVICES)) $(call given,SERVICE,manifest) $(call given,BIN,bin) $(call given,BINARY,binary) \
	  $(call given,RUNTIME,runtime) $(call given,HEALTH,health) $(if $(call given,WATCH,watch),--watch)

down: ## Stop the processes that up started
	@$(LOCAL) down

status: ## Show every process, its state, CPUs and address
	@$(LOCAL) status

logs: ## Show the last log lines, or follow one process: NAME=server-0
	@$(LOCAL) logs $(call given,NAME)

postgres-up: ## Start a disposable PostgreSQL
	@$(PYTHON) hack/postgres.py up

postgres-down: ## Stop that PostgreSQL and remove its data
	@$(PYTHON) hack/postgres.py down

##@ Cluster

# CLUSTER=kind and CLUSTER=current do not use this repository's cluster.
cluster-up: ## Start two Kubernetes nodes without Docker, or another cluster: CLUSTER=kind
	@$(CLUSTER_COMMAND) up

cluster-down: ## Stop the cluster and check that nothing is left behind
	@$(CLUSTER_COMMAND) down

cluster-status: ## Show the cluster's components, nodes and pods
	@$(CLUSTER_COMMAND) status

# CLUSTER=current installs on the current kubeconfig's cluster, with the images that VALUES name.
deploy: ## Build the images and install the charts on the cluster
	@$(PYTHON) hack/deploy up

undeploy: ## Uninstall the releases that deploy installed
	@$(PYTHON) hack/deploy down

e2e: ## Test rollouts, pinning and failures on the running cluster, or on a new one: TESTS="-k drain"
	@$(TOOLS) ensure helm kubectl ip k6 pytest
	@hack/e2e $(TESTS)

# Builds that only the essential cluster tests and the instruction count need. CI makes them during the other tests.
parts:
	@$(TOOLS) ensure kubectl coredns containerd ip valgrind
	@$(PYTHON) hack/images build --profile local server gateway cli node-tuner mixed
	@$(PYTHON) hack/images build --out .run/instructions server

##@ Test

# Three tiers of checks. Each tier includes the previous tier.
CHECK_TOOLS := ruff lint-imports pytest shellcheck actionlint vale promtool helm helm-docs helm-unittest
TEST_TOOLS := envoy supervisord prometheus alertmanager k6 postgres ab h2spec openssl nginx haproxy skopeo strace g++
NIGHTLY_TOOLS := chromium playwright axe-core crane kind ip kubectl kube-apiserver etcd envoy-gateway valgrind

check: ## Check formats, run linters, unit tests and fast tests; use it before each commit
	@$(CHECKS) run check

test: ## Run check and the tests with real processes: Envoy, PostgreSQL, Prometheus, k6
	@$(CHECKS) run test

test-all: test ## Run every test; requires root and takes hours
	@$(MAKE) --no-print-directory $(NIGHTLY)

# Tests that test-all adds to test. The nightly workflow runs each of them in its own job.
NIGHTLY := test-nightly features test-jwt e2e check-dashboards drill soak chaos-long fuzz-long miri release-dry-run shake

check-tools:
	@$(TOOLS) ensure $(CHECK_TOOLS)

shake: ## Repeat tests in random order under pressure: TIER=check ROUNDS=10 SEED=1 PRESSURE=all
	$(CHECKS) shake $(or $(TIER),processes) --rounds $(or $(ROUNDS),2) $(if $(SEED),--seed $(SEED)) --pressure $(or $(PRESSURE),half)

lint: ## Check formats and run the linters that need no build
	cd services && cargo fmt --check
	test -z "$$(gofmt -l loadtests/bench/peers/go services/examples/go | tee /dev/stderr)"
	$(TOOLS) run ruff format --check
	$(TOOLS) run ruff check
	$(TOOLS) run shellcheck $(SHELL_FILES)
	$(TOOLS) run promtool check rules $(RULES)
	$(TOOLS) run promtool test rules $(RULE_TESTS)
	$(PYTHON) hack/layers.py
	PYTHONPATH=hack $(TOOLS) run lint-imports --no-cache
	$(PYTHON) hack/release version check
	$(TOOLS) run actionlint -shellcheck "$$($(TOOLS) path shellcheck)" $(WORKFLOWS)
	$(PYTHON) hack/prose
	$(PYTHON) hack/book.py check

check-charts: ## Lint the charts, run their unit tests, and check the generated files
	$(TOOLS) run helm lint --strict $(CHARTS)
	$(TOOLS) run helm-unittest --strict --with-subchart=false --values "$(CURDIR)/tests/charts/registry.yaml" $(CHART_TESTS)
	$(PYTHON) hack/charts check

check-python:
	$(PYTEST) -m fast

# Clippy compiles our own crates in place of rustc, so that lints and tests share one build. `cargo clippy` would check
# every dependency that the tests compile anyway; it passes its flags to clippy-driver in the same way.
clippy test-rust chaos check-python test-processes: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
clippy test-rust chaos check-python test-processes: export CLIPPY_ARGS = $(subst $(space),__CLIPPY_HACKERY__,$(CLIPPY_FLAGS))

clippy: ## Build the Rust code and its tests with clippy
	cd services && cargo test --locked --no-run
	cd services && cargo test --locked --no-run --features corelane/chaos --test chaos

# Feature sets rarely fail to compile, and each set recompiles its dependencies.
features: ## Run clippy on the libraries with each set of features
	cd services && for features in "" kubernetes server auth faults openapi jwt; do \
	  cargo clippy --locked -p corelane-service --lib --no-default-features --features "$$features" -- $(CLIPPY_FLAGS) || exit 1; \
	done
	cd services && for features in "" http2 tls; do \
	  cargo clippy --locked -p corelane --lib --no-default-features --features "$$features" -- $(CLIPPY_FLAGS) || exit 1; \
	done

# Library tests mostly wait for sockets, so more run at once than there are CPUs.
test-rust: ## Run the unit and library tests of the Rust services
	cd services && cargo test --locked $(RUST_TARGETS) -- --test-threads=8 $(RUST_TEST_FLAGS)

# Separate from test-rust, because its features recompile 42 dependencies. CI runs it for each change.
test-jwt: ## Run the tests of the optional JSON Web Token feature
	cd services && cargo test --locked -p corelane-service --lib --features jwt -- auth

test-processes: ## Run the tests with real processes
	@$(TOOLS) ensure $(TEST_TOOLS)
	@# Before the tests, whose time limits do not allow for a build.
	@test -n "$$BINARIES" || (cd services && cargo build --locked --quiet --bins --examples)
	$(PYTEST) -m "not fast and not nightly"

test-nightly: ## Run the tests that need Kubernetes programs, QEMU or release builds
	@$(TOOLS) ensure $(TEST_TOOLS) $(NIGHTLY_TOOLS)
	$(PYTEST) -m nightly

chaos: ## Park and move connections at every opportunity while clients cut requests: CHAOS_EVENTS=1000000 CHAOS_SEED=1
	services/corelane/tests/chaos/run

chaos-long:
	@$(MAKE) --no-print-directory chaos CHAOS_EVENTS=$(or $(CHAOS_EVENTS),1000000)

# A random search needs time, so it runs in the nightly workflow. `cargo test` runs each target on its seeds.
fuzz: ## Fuzz the parsers of external input: FUZZ_SECONDS=60 TARGETS=div SANITIZER=address
	$(if $(FUZZ_SECONDS),FUZZ_SECONDS=$(FUZZ_SECONDS)) $(if $(SANITIZER),SANITIZER=$(SANITIZER)) services/fuzz/run $(TARGETS)

fuzz-long:
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=60

# The crates have no unsafe code (`unsafe_code = "forbid"` in services/Cargo.toml): miri can find errors
# only in their dependencies' unsafe code.
# Excludes tests that read files or clocks, move threads, open sockets or call C, which miri does not emulate.
MIRI_SKIPS := cpu::view cpu::repin tls:: placement:: hyper_sees

miri: ## Look for undefined behaviour in the library's dependencies; needs nightly Rust with miri
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
	  cd services && cargo +nightly miri test --locked -p corelane --lib -- $(addprefix --skip ,$(MIRI_SKIPS)); \
	else \
	  echo "miri: skipped; it takes: rustup toolchain install nightly --component miri,rust-src"; \
	fi

check-dashboards: ## Run every query of every dashboard on a platform under load and with faults
	$(PYTHON) dashboards/live

drill: ## Trigger each alert and check that Alertmanager sends it: ALERTS="CorelaneStall CorelaneReplicaDown"; needs root
	$(PYTHON) dashboards/drill $(ALERTS)

prose: ## Check the English of docs, comments and messages: PROSE="docs charts/service"
	@$(PYTHON) hack/prose $(PROSE)

##@ Write

fmt: ## Format Rust and Python
	cd services && cargo fmt
	$(TOOLS) run ruff format
	$(TOOLS) run ruff check --fix

book: ## Build the website of docs/ in .run/book/site
	$(PYTHON) hack/book.py build $(if $(REPOSITORY),--repository $(REPOSITORY))

charts: ## Write the files that are generated from the charts: schemas, READMEs, the local gateway
	@$(PYTHON) hack/charts generate

metrics: ## Write docs/metrics*.md from the series catalogue in dashboards/metrics
	@$(PYTHON) dashboards/metrics

settings: ## Write docs/settings.md, which lists the keys of all services and of the reference service
	cd services && cargo run --quiet --locked -p corelane-server -- --schema | $(PYTHON) ../hack/settings.py > ../docs/settings.md

dashboards: ## Write the Grafana dashboards in dashboards/json from dashboards/grafana
	$(TOOLS) run dashboards-python dashboards/grafana

##@ Benchmark

loadtest: ## Run a load test through the gateway: SCENARIO=smoke, or another scenario from python3 loadtests list
	$(PYTHON) loadtests $(or $(SCENARIO),smoke)

loadtest-suite: ## Run a short version of every load test, with an overview page
	$(PYTHON) loadtests suite

loadtest-compare: ## Check whether this tree is slower than another commit: BASE=main
	$(PYTHON) loadtests/bench compare $(BASE)

bench: ## Run a benchmark: BENCH=competitors, gateway, balancing, capacity, ..., with its options in quotes; BENCH=--help lists all
	$(PYTHON) loadtests/bench $(or $(BENCH),competitors)

check-instructions: ## Fail if a request takes over 3% more instructions than the committed table allows
	$(PYTHON) loadtests/bench instructions --check

# bash also has a variable with this name.
soak: ## Run one server for 5 minutes while clients connect and disconnect: SECONDS=60
	$(PYTHON) loadtests/bench soak $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS))

##@ Release

release-dry-run: ## Publish a release to a temporary registry and verify it
	$(PYTHON) hack/release dry-run

images: ## Build the images as OCI archives in .run/images: IMAGES="server gateway" ARCH=arm64
	$(PYTHON) hack/images build $(IMAGES) $(if $(ARCH),--arch $(ARCH)) $(if $(TAG),--tag $(TAG))

##@ Other

tools: ## Install the tools for make check and make test
	@$(TOOLS) ensure $(CHECK_TOOLS) $(TEST_TOOLS)

clean: ## Stop the instance and remove builds, logs and recorded data
	@$(LOCAL) remove
	rm -rf .run/book .run/compare .run/images .run/deploy .run/release .pytest_cache .ruff_cache loadtests/out
	cd services && cargo clean
