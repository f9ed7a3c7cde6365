# What developers and CI run. Each recipe calls one thing that also works alone.

PYTHON ?= python3
TOOLS := $(PYTHON) hack/tools
LOCAL := $(PYTHON) hack/local
CLUSTER_COMMAND := $(PYTHON) hack/cluster
CHARTS := $(patsubst %/Chart.yaml,%,$(wildcard charts/*/Chart.yaml))
CHART_TESTS := $(patsubst %/tests,%,$(wildcard charts/*/tests))
WORKFLOWS := $(wildcard .github/workflows/*.yaml)

RULES := $(wildcard dashboards/rules/*.rules.yaml)
RULE_TESTS := $(wildcard dashboards/tests/*.test.yaml)

# Shell files that git knows or would take; looked up only when used.
SHELL_FILES = $(shell git grep --untracked -lE '^\#!/(usr/)?bin/(env )?(ba)?sh$$' -- ':!*.py' ':!*.md')

# Clippy of a newer Rust finds more: that is shown, and fails only with the Rust of CI.
CLIPPY_FLAGS = $(if $(filter 1.95.%,$(shell rustc --version)),-D warnings)

.DEFAULT_GOAL := help
.PHONY: help up down status logs cluster-up cluster-down cluster-status deploy undeploy e2e parts postgres-up postgres-down test lint formats prose clippy test-services chaos test-platform \
  test-parts test-traffic ladder \
  fuzz miri fmt charts metrics dashboards check-dashboards images release-dry-run loadtest loadtest-suite loadtest-compare drill pgo bench check-instructions soak \
  tools clean

help: ## Show the targets and variables
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@awk '/^##( |$$)/ {print substr($$0, 4)}' $(MAKEFILE_LIST)

##
## Variables of up, as in: make up REPLICAS=4
## INSTANCE is also for down, status, logs, loadtest, clean, postgres-up and postgres-down.
##   REPLICAS            replicas of the server; one per CPU
##   PROFILE             local, the cargo profile that builds the server; release is faster and takes minutes to build
##   GATEWAY_PORT        8080, where requests go
##   ENVOY_ADMIN_PORT    9901
##   GATEWAY_STATS_PORT  9902
##   PROMETHEUS_PORT     9090
##   REPLICA_PORT        8100, the first replica's; the next ones count up
##   REPLICA_ADMIN_PORT  8200, the first replica's; the next ones count up
##   DATABASE            sqlite: a file of all replicas; postgres: one that is started with them; none
##   POSTGRES_PORT       5433; also of postgres-up
##   INSTANCE            default; another name with other ports runs beside it
##
## Variables of cluster-up, cluster-down, deploy, undeploy and e2e
##   CLUSTER             local: two nodes on this machine, without Docker; kind; or current: the current kubeconfig
## Variables of deploy and undeploy
##   NAMESPACE           corelane
##   RELEASE             corelane
##   VALUES              values files of charts/corelane, separated by commas; those of hack/cluster/values.yaml

up: ## Start replicas, gateway and Prometheus as local processes
	@$(LOCAL) up

down: ## Stop what up started
	@$(LOCAL) down

status: ## Show every process, its state, CPUs and address
	@$(LOCAL) status

# Some systems set NAME in every environment; only make's own counts.
logs: ## Show the last log lines, or follow one process: NAME=server-0
	@$(LOCAL) logs $(if $(filter command line,$(origin NAME)),$(NAME))

# CLUSTER=kind and CLUSTER=current are other clusters than that of this repository.
cluster-up: ## Start two Kubernetes nodes without Docker, or others: CLUSTER=kind
	@$(CLUSTER_COMMAND) up

cluster-down: ## End the cluster, and check that nothing of it is left
	@$(CLUSTER_COMMAND) down

cluster-status: ## Show the cluster's components, nodes and pods
	@$(CLUSTER_COMMAND) status

# CLUSTER=current installs on the cluster of the current kubeconfig, with the images that VALUES name.
deploy: ## Build the images and install the charts on the cluster
	@$(PYTHON) hack/deploy up

undeploy: ## Uninstall what deploy installed
	@$(PYTHON) hack/deploy down

e2e: tools ## Test roll-outs, pinning and failures on the cluster, or on one of its own: TESTS="-k drain"
	@hack/e2e $(TESTS)

# What e2e takes and no other test does: CI builds it while its tests wait for something else. Those of Go are soon
# there, and tests of images wait while ours are built.
parts:
	@$(TOOLS) ensure coredns
	@$(PYTHON) hack/images build prometheus alertmanager k6 server gateway node-tuner

postgres-up: ## Start a disposable PostgreSQL, for tests and for who tries things out
	@$(PYTHON) hack/postgres up

postgres-down: ## End that PostgreSQL, and remove its data
	@$(PYTHON) hack/postgres down

test: lint test-services test-platform fuzz ## Run all checks and tests but miri and the 5 minutes of soak

lint: formats clippy ## Check formats, and what linters find

# What needs no build of ours.
formats: tools
	cd services && cargo fmt --check
	cd services/fuzz && cargo fmt --check
	cd loadtests/bench && cargo fmt --check
	test -z "$$(gofmt -l loadtests/bench/peers/go | tee /dev/stderr)"
	$(TOOLS) run ruff format --check
	$(TOOLS) run ruff check
	$(TOOLS) run shellcheck $(SHELL_FILES)
	$(TOOLS) run helm lint --strict $(CHARTS)
	$(PYTHON) hack/charts check
	$(TOOLS) run promtool check rules $(RULES)
	$(PYTHON) hack/release version check
	$(PYTHON) hack/prose
	$(TOOLS) run actionlint -shellcheck "$$($(TOOLS) path shellcheck)" $(WORKFLOWS)

clippy:
	cd services && cargo clippy --all-targets --locked -- $(CLIPPY_FLAGS)
	cd services && cargo clippy --locked -p corelane --features chaos --test chaos -- $(CLIPPY_FLAGS)
	cd loadtests/bench && cargo clippy --all-targets --locked -- $(CLIPPY_FLAGS)

test-services: ## Run the tests of the Rust services, the load generator and the virtual replica
	cd services && cargo test --locked
	cd services && cargo test --locked --features corelane/chaos --test chaos
	cd loadtests/bench && cargo test --locked -p load-generator -p peers -p pool -p virtual-replica

chaos: ## Connections rest and move under clients that cut requests anywhere: CHAOS_EVENTS=1000000 CHAOS_SEED=1 PROBE=1 (asks a patched hyper at each rest)
	services/corelane/tests/chaos/long $(if $(PROBE),--probe)

test-platform: tools ## Run the tests with real processes, and those of charts and tools
	@$(TOOLS) ensure kube-apiserver kubectl etcd crane kind ip envoy-gateway nginx haproxy valgrind
	$(TOOLS) run promtool test rules $(RULE_TESTS)
	$(TOOLS) run helm-unittest --strict --with-subchart=false $(CHART_TESTS)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-parts test-traffic

# Two halves side by side, because one mostly renders and the other mostly waits; each shows its lines at its end.
# Each draws ports of its own, so that neither takes one that the other is about to use.
TRAFFIC := tests/gateway tests/loadtests tests/node_tuner

test-parts:
	TEST_PORTS=10000-16999 $(TOOLS) run pytest tests $(addprefix --ignore=,$(TRAFFIC))

test-traffic:
	TEST_PORTS=20000-29999 $(TOOLS) run pytest $(TRAFFIC)

# Its seeds alone take no time; a few seconds each find what is easily found.
fuzz: tools ## Fuzz what reads text from outside: FUZZ_SECONDS=60 TARGETS=div SANITIZER=address
	$(if $(FUZZ_SECONDS),FUZZ_SECONDS=$(FUZZ_SECONDS)) $(if $(SANITIZER),SANITIZER=$(SANITIZER)) services/fuzz/run $(TARGETS)

# The crates have no unsafe code (`unsafe_code = "forbid"` in services/Cargo.toml): what miri can find is in
# that of their dependencies, as they use it.
# Not those that read files or clocks, move threads, open sockets or call C: miri does not emulate that. Nor
# the capacity model, which only computes, for hours there.
MIRI_SKIPS := cpu::view cpu::repin tls:: placement:: hyper_sees capacity::

miri: ## Look for undefined behaviour in what the library calls; needs nightly Rust with miri
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
	  cd services && cargo +nightly miri test --locked -p corelane --lib -- $(addprefix --skip ,$(MIRI_SKIPS)); \
	else \
	  echo "miri: skipped; it takes: rustup toolchain install nightly --component miri,rust-src"; \
	fi

prose: ## Check the English of docs, comments and messages: PROSE="docs charts/server"
	@$(PYTHON) hack/prose $(PROSE)

fmt: ## Format Rust and Python
	cd services && cargo fmt
	cd services/fuzz && cargo fmt
	cd loadtests/bench && cargo fmt
	$(TOOLS) run ruff format
	$(TOOLS) run ruff check --fix

charts: ## Write what is generated from the charts: schemas, READMEs and golden renders
	$(PYTHON) hack/charts generate
	$(PYTHON) hack/charts golden --update

metrics: ## Write docs/metrics.md from the catalogue of series in dashboards/metrics
	@$(PYTHON) dashboards/metrics

dashboards: ## Write the dashboards of Grafana, dashboards/json, from dashboards/grafana
	$(TOOLS) run dashboards-python dashboards/grafana

check-dashboards: ## Ask every query of every dashboard on a platform under load and with faults: PROFILE=release
	$(PYTHON) dashboards/live

loadtest: ## Run a load test through the gateway: SCENARIO=smoke, or another of python3 loadtests list
	$(PYTHON) loadtests $(or $(SCENARIO),smoke)

loadtest-suite: ## Run every load test in turn, short, with one page over all of them
	$(PYTHON) loadtests suite

loadtest-compare: ## Tell whether this tree is slower than another commit: BASE=main
	$(PYTHON) loadtests compare $(BASE)

drill: ## Make each alert's condition happen, and see that Alertmanager tells of it: ALERTS="CorelaneStall CorelaneReplicaDown"; needs root
	$(PYTHON) dashboards/drill $(ALERTS)

pgo: ## Build the server with the profile of its own load, for less CPU per request
	hack/pgo

bench: ## Run a benchmark: BENCH=field, gateway, balancing, capacity, ..., with its options in quotes; BENCH=--help lists all
	$(PYTHON) loadtests/bench $(or $(BENCH),field)

check-instructions: ## Fail where a request takes more than 1.03 times the instructions of that table
	$(PYTHON) loadtests/bench instructions --check

ladder: ## Hold up to 40,000 connections, slow ones too, and ask 20,000 times at once; as root in a network of its own
	$(PYTHON) loadtests ladder

# bash, too, has a variable of this name.
soak: ## Keep one server under clients that come and go for 5 minutes: SECONDS=60
	$(PYTHON) loadtests/bench soak $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS))

release-dry-run: ## Make a release in a registry of its own, and verify it from there
	$(PYTHON) hack/release dry-run

images: ## Build the images as OCI archives in .run/images: IMAGES="server gateway" ARCH=arm64
	$(PYTHON) hack/images build $(IMAGES) $(if $(ARCH),--arch $(ARCH)) $(if $(TAG),--tag $(TAG))

tools: ## Obtain what tests and checks use
	@$(TOOLS) ensure helm helm-docs helm-unittest envoy prometheus promtool alertmanager supervisord k6 ab wrk vegeta shellcheck ruff pytest actionlint vale h2spec openssl g++ skopeo strace

clean: ## Stop the instance; remove builds, logs and recorded data
	@$(LOCAL) remove
	rm -rf .run/compare .run/images .run/deploy .run/release .pytest_cache .ruff_cache loadtests/out
	cd services && cargo clean
	cd services/fuzz && cargo clean
	cd loadtests/bench && cargo clean
