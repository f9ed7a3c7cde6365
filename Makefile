# What developers and CI run. Each recipe calls one thing that also works alone.

PYTHON ?= python3
TOOLS := $(PYTHON) hack/tools
LOCAL := $(PYTHON) hack/local
CHARTS := $(patsubst %/Chart.yaml,%,$(wildcard charts/*/Chart.yaml))
WORKFLOWS := $(wildcard .github/workflows/*.yaml)

RULES := $(wildcard dashboards/rules/*.rules.yaml)
RULE_TESTS := $(wildcard dashboards/tests/*.test.yaml)

# Shell files that git knows or would take; looked up only when used.
SHELL_FILES = $(shell git grep --untracked -lE '^\#!/(usr/)?bin/(env )?(ba)?sh$$' -- ':!*.py' ':!*.md')

.DEFAULT_GOAL := help
.PHONY: help up down status logs test lint test-services test-platform fmt loadtest compare-direct tools clean

help: ## Show the targets and variables
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@awk '/^##( |$$)/ {print substr($$0, 4)}' $(MAKEFILE_LIST)

##
## Variables of up, as in: make up REPLICAS=4
## INSTANCE is also for down, status, logs, loadtest, compare-direct and clean.
##   REPLICAS            replicas of the server; one per CPU
##   GATEWAY_PORT        8080, where requests go
##   ENVOY_ADMIN_PORT    9901
##   GATEWAY_STATS_PORT  9902
##   PROMETHEUS_PORT     9090
##   REPLICA_PORT        8100, the first replica's; the next ones count up
##   REPLICA_ADMIN_PORT  8200, the first replica's; the next ones count up
##   INSTANCE            default; another name with other ports runs beside it

up: ## Start replicas, gateway and Prometheus as local processes
	@$(LOCAL) up

down: ## Stop what up started
	@$(LOCAL) down

status: ## Show every process, its state, CPUs and address
	@$(LOCAL) status

# Some systems set NAME in every environment; only make's own counts.
logs: ## Show the last log lines, or follow one process: NAME=server-0
	@$(LOCAL) logs $(if $(filter command line,$(origin NAME)),$(NAME))

test: lint test-services test-platform ## Run every check and test

lint: tools ## Check formats, and what linters find
	cd services && cargo fmt --check
	cd services && cargo clippy --all-targets --locked -- -D warnings
	$(TOOLS) run ruff format --check
	$(TOOLS) run ruff check
	$(TOOLS) run shellcheck $(SHELL_FILES)
	$(TOOLS) run helm lint --strict $(CHARTS)
	$(TOOLS) run promtool check rules $(RULES)
	$(TOOLS) run actionlint -shellcheck "$$($(TOOLS) path shellcheck)" $(WORKFLOWS)

test-services: ## Run the tests of the Rust services
	cd services && cargo test --locked

test-platform: tools ## Run the tests with real processes, and those of charts and tools
	$(TOOLS) run promtool test rules $(RULE_TESTS)
	$(TOOLS) run pytest

fmt: ## Format Rust and Python
	cd services && cargo fmt
	$(TOOLS) run ruff format
	$(TOOLS) run ruff check --fix

loadtest: ## Run the k6 smoke test through the gateway
	$(PYTHON) loadtests smoke

compare-direct: ## Compare one replica directly with the gateway over all, under ab
	$(PYTHON) loadtests/bench compare-direct

tools: ## Obtain what tests and checks use
	@$(TOOLS) ensure helm envoy prometheus promtool supervisord k6 ab shellcheck ruff pytest actionlint

clean: down ## Stop the instance; remove builds, logs and recorded data
	rm -rf .run/$(or $(INSTANCE),default) .pytest_cache .ruff_cache loadtests/out
	cd services && cargo clean
