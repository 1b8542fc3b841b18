# The targets of this repository. `make help` lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The go command uses every core by itself. Two linkers of the size of kube-apiserver's at a time would only cost memory.
.NOTPARALLEL:

BIN := bin

# The parts of a control plane that the playground and the integration tests run, built from hack/tools.
COMPONENTS := etcd kube-apiserver kube-controller-manager kwok
# The commands of this module.
COMMANDS := reprieve-scheduler kubectl-reprieve playground

# The number of test packages that run at a time: many start a control plane, which is heavy. The slowest begin first.
TEST_P ?= 2
TEST_FIRST := $(addprefix ./test/integration/,queues deploy preemption scheduling crash soak)
TEST_TIMEOUT ?= 40m
# The tests to run, and further flags for `go test`: make test TEST=./internal/core/... TEST_FLAGS='-run TestX -v'
TEST ?= ./...
TEST_FLAGS ?=

# Everything but the tests (the race detector needs cgo) compiles in one mode, so that binaries, vet and the
# linters share one set of compiled dependencies.
STATIC := CGO_ENABLED=0 GOFLAGS=-trimpath

# go build with a progress display.
BUILD := CGO_ENABLED=0 go run -trimpath ./hack/build

# Tests of the chart, the alerts and the dashboard. They use the libraries of Helm and Prometheus, which must not become
# dependencies of the product.
CHART_TESTS := test/chart test/monitoring

# The older versions of Kubernetes that Reprieve is tested on, each with a module below hack/tools. The newest version is in
# hack/tools itself. CI also runs the core of the tests on the first one.
OLDER := 1.34 1.35 1.36
NEWEST = $(basename $(KUBE_VERSION:v%=%))
VERSIONS ?= $(OLDER) $(NEWEST)
# The page that test-versions writes its table into; empty prints it.
VERSIONS_DOC ?= docs/versions.md

# The program that makes a release. It uses libraries for images and lists of modules.
RELEASE_MODULE := hack/release

LINT := go tool -modfile=hack/tools/lint/go.mod golangci-lint
# The checks of the language.
PROSE := $(STATIC) go run ./hack/prose

MODULES := . hack/release test/chart test/monitoring test/perf hack/tools hack/tools/benchstat hack/tools/generate hack/tools/helm-unittest \
	hack/tools/kubeconform hack/tools/lint hack/tools/prometheus hack/tools/vale \
	$(OLDER:%=hack/tools/kube-%)

# A semantic version: the tag, or v0.1.0-dev with the commit as build metadata.
GIT_DESCRIBE := $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null)
VERSION ?= $(or $(filter v%,$(GIT_DESCRIBE)),v0.1.0-dev$(addprefix +,$(GIT_DESCRIBE)))

# Kubernetes derives the defaults of its feature gates from the version that is stamped into component-base. It
# must therefore be Kubernetes' own, in this module's commands too. Reprieve's version follows as build metadata.
KUBE_MODULE = hack/tools
KUBE_VERSION = $(shell go -C $(KUBE_MODULE) list -m -f '{{.Version}}' k8s.io/kubernetes)
VERSION_PACKAGE := k8s.io/component-base/version
KUBE_LDFLAGS = -s -w -X $(VERSION_PACKAGE).gitVersion=$(KUBE_VERSION)$(1) \
	-X $(VERSION_PACKAGE).gitMajor=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBE_VERSION)))) \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION)))

##@ Use

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-zA-Z0-9_\/-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(addprefix $(BIN)/,$(COMPONENTS)) $(COMMANDS) ## Build everything into bin/ (minutes on the first run).

.PHONY: demo
demo: build ## Watch a gang preempt another gang, on a control plane of its own.
	@$(STATIC) go run ./hack/demo

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BIN)

##@ Release

# The commands and platforms of a release; all if empty: make release ONLY=kubectl-reprieve PLATFORMS=linux/amd64
ONLY ?=
PLATFORMS ?=
RELEASE_RUN = $(STATIC) go -C $(RELEASE_MODULE) run . $(1) -root $(CURDIR) -version $(VERSION)
RELEASE_PART = -only "$(ONLY)" -platforms "$(PLATFORMS)" -binaries $(abspath $(BIN))/release-binaries

.PHONY: release
release: ## Make a release in bin/release, and publish nothing: VERSION=v0.2.0 (an hour or so on the first run).
	@$(call RELEASE_RUN,build) $(RELEASE_PART) -ldflags "$(call KUBE_LDFLAGS,+reprieve.$(subst +,.,$(VERSION)))" \
		-part-ldflags "$(call KUBE_LDFLAGS)"
	@$(call RELEASE_RUN,pack) $(RELEASE_PART) -out $(abspath $(BIN))/release

.PHONY: release-notes
release-notes: ## Print the changes of a release: VERSION=v0.2.0.
	@$(call RELEASE_RUN,notes)

.PHONY: changelog
changelog: ## Move the unreleased changes in CHANGELOG.md and the fragments in changelog/ to a section: VERSION=v0.2.0.
	@$(call RELEASE_RUN,changelog)

##@ Work

.PHONY: unit
unit: ## Run the unit tests: no control plane, no race detector.
	REPRIEVE_BIN=none $(STATIC) go test $(TEST_FLAGS) $(TEST)

.PHONY: test
test: build $(BIN)/helm $(BIN)/prometheus ## Run all tests with the race detector, against the control plane in bin/ where they need one.
	@$(if $(filter ./...,$(TEST)),$(MAKE) --no-print-directory chart-test)
	go test -race -p $(TEST_P) -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(if $(filter ./...,$(TEST)),$(TEST_FIRST)) $(TEST)

.PHONY: integration
integration: build ## Run some tests against the control plane in bin/, without the race detector: TEST=./test/integration/queues
	$(STATIC) go test -p $(TEST_P) -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(if $(filter ./...,$(TEST)),./test/integration/...,$(TEST))

.PHONY: test-oldest
test-oldest: ## Run the core of the tests on the oldest Kubernetes that Reprieve runs on, as CI does.
	@$(MAKE) --no-print-directory test-versions VERSIONS=$(firstword $(OLDER)) VERSIONS_DOC=

.PHONY: test-versions
test-versions: build $(patsubst %,$(BIN)/versions/%/kube-apiserver,$(filter $(OLDER),$(VERSIONS))) ## Run the core of the tests on each of VERSIONS of Kubernetes, and write docs/versions.md.
	@$(STATIC) go run ./hack/versions -bin-dir $(abspath $(BIN)) -doc "$(VERSIONS_DOC)" $(VERSIONS)

.PHONY: conformance
conformance: build ## Check that gangs start whole or not at all, for CNCF AI conformance, and write docs/results/conformance.md.
	@$(STATIC) go run ./hack/conformance -bin-dir $(abspath $(BIN)) -doc docs/results/conformance.md

# A part of the names of the tests to run; empty runs all and writes the page.
SUITE ?=

.PHONY: upstream-suites
upstream-suites: build ## Run kube-scheduler's own suites of groups against Reprieve, and write docs/results/upstream-suites.md (a quarter of an hour).
	@$(STATIC) go run ./hack/suites -bin-dir $(abspath $(BIN)) -test "$(SUITE)" -doc docs/results/upstream-suites.md

.PHONY: chart-test
chart-test: ## Run the tests of the Helm chart, the alerts, the dashboard and the release: no control plane (part of test).
	@# The go command does not see files outside of a module, so it would not notice that the chart has changed: -count=1.
	@for module in $(CHART_TESTS) $(RELEASE_MODULE); do $(STATIC) go -C $$module test -count=1 $(TEST_FLAGS) ./... || exit 1; done

# The release to pack the chart of: a tag, or any commit.
RELEASE ?=

.PHONY: last-release
last-release: ## Pack the chart of RELEASE, for the test that upgrades from it.
	git archive --format=tar.gz --output=test/integration/deploy/testdata/last-release.tgz "$(RELEASE):charts" reprieve

# The comparison: names of workloads (all if empty), the size (small, medium or full), the number of runs, and one side or
# both. PROFILE=1 writes CPU profiles to bin/perf. With DECISION_LOG=FILE, Reprieve writes its decisions to a file.
DECISION_LOG ?=
WORKLOADS ?=
SIZE ?= full
COUNT ?= 1
SIDES ?= upstream,reprieve
# The number of runs of each measurement of make perf-installed.
RUNS ?= 5
PROFILE ?=

.PHONY: perf
perf: $(BIN)/etcd ## Compare the throughput with kube-scheduler's own (an hour; WORKLOADS="gang-100 gangs" for less).
	@PERF_DECISION_LOG="$(abspath $(DECISION_LOG))" PATH="$(abspath $(BIN)):$$PATH" $(STATIC) go -C test/perf run . -out $(abspath $(BIN))/perf \
		-doc $(abspath docs/results)/performance.md -workloads "$(WORKLOADS)" -size $(SIZE) -count $(COUNT) -sides $(SIDES) \
		$(if $(PROFILE),-profile)

.PHONY: perf-calls
perf-calls: $(BIN)/etcd ## Measure the API calls of workloads that preempt, without a scheduler, with various numbers of concurrent calls.
	@mkdir -p $(BIN)/perf
	@PATH="$(abspath $(BIN)):$$PATH" TEST_SRCDIR="$$(go env GOMODCACHE)" TEST_WORKSPACE=. ARTIFACTS=$(abspath $(BIN))/perf \
		$(STATIC) go -C test/perf test ./throughput -run '^$$' -bench '^BenchmarkCalls$$' -benchtime 1x -count $(COUNT) \
		> $(BIN)/perf/calls.txt 2>&1 || { tail $(BIN)/perf/calls.txt; exit 1; }
	@grep -o 'BenchmarkCalls/.*s/workload' $(BIN)/perf/calls.txt

.PHONY: perf-log
perf-log: ## Measure the share of CPU time of the decision log under a load of preemptions only.
	@$(MAKE) --no-print-directory perf WORKLOADS=preemption PROFILE=1 SIDES=reprieve SIZE=$(SIZE) DECISION_LOG=$(BIN)/perf-decisions.jsonl
	@wc -l $(BIN)/perf-decisions.jsonl && rm $(BIN)/perf-decisions.jsonl
	@go tool pprof -top -cum -focus='internal/decisionlog|scheduler.\(\*Plugin\).(follow|recordOf)' $(BIN)/perf/preemption/1/*reprieve*.pprof \
		2>/dev/null | grep 'accounting for'

.PHONY: perf-installed
perf-installed: build ## Measure preemptions from outside, as installed, and write docs/results/installed.md (half an hour).
	@$(STATIC) go run ./hack/installed -runs $(RUNS) -doc docs/results/installed.md

.PHONY: bench
bench: ## Compare victims and times of decisions with upstream's for some minutes, and write docs/results/benchmarks.md.
	$(STATIC) go test ./test/bench -run '^TestTable$$' -count 1 -timeout 30m -v -table=$(CURDIR)/docs/results/benchmarks.md

# The number of points of evictions at which kill-points kills, and the seed that selects them.
POINTS ?= 500
SEED ?= 1

# The length of the sequences of events that explore tries.
DEPTH ?= 8

.PHONY: explore
explore: ## Try all orders of DEPTH events on the records of the engine (a minute; each further event takes four times as long).
	$(STATIC) go test -timeout 4h ./internal/engine -run '^TestEveryOrder$$' -v -args -engine.depth=$(DEPTH)

# The number of random sequences of events that wakeups plays.
SEQUENCES ?= 2500

.PHONY: wakeups
wakeups: ## Play SEQUENCES random sequences of events on a scheduler, and look for workloads that it does not retry (half a second each).
	$(STATIC) go test -timeout 4h ./internal/scheduler -run '^TestNoLostWakeup$$' -v -args -scheduler.sequences=$(SEQUENCES)

.PHONY: kill-points
kill-points: build ## Kill the scheduler, API server and etcd at POINTS points of evictions, by SEED (about 5 s each).
	go test ./test/integration/crash -run '^(TestKillPoints|TestOldLeader)$$' -timeout 4h -v -args -kill-points $(POINTS) -kill-seed $(SEED)

# The duration of soak.
DURATION ?= 60m

.PHONY: soak
soak: build ## Run schedulers through faults for DURATION, by SEED, check their guarantees, and write docs/results/endurance.md.
	go test ./test/integration/soak -run '^TestSoak$$' -count 1 -timeout 0 -v -args \
		-soak-duration $(DURATION) -soak-seed $(SEED) -soak-report $(CURDIR)/docs/results/endurance.md

# The time for which work arrives before the dashboard is drawn.
PICTURE_FOR ?= 2m

.PHONY: dashboard-picture
dashboard-picture: build $(BIN)/prometheus ## Draw the dashboard's panels from a playground under load, into docs/dashboard.svg.
	$(STATIC) go test ./test/integration/deploy -run '^TestDashboard$$' -count 1 -v -args \
		-dashboard-for $(PICTURE_FOR) -dashboard-data $(abspath $(BIN))/dashboard.json
	@$(STATIC) go run ./hack/dashboard -data $(BIN)/dashboard.json -out docs/dashboard.svg

# The rows of make yardsticks, separated by commas; all if empty.
ROWS ?=

.PHONY: yardsticks
yardsticks: ## Measure Reprieve by the tests of other schedulers, and write docs/results/yardsticks.md: ROWS=peers,fgd,scale,kai.
	@$(STATIC) go run ./hack/yardsticks -doc docs/results/yardsticks.md -rows "$(ROWS)" -trace "$(TRACE)" -bin-dir $(BIN)

# The directory of the trace openb, and flags of kubectl reprieve simulate.
TRACE ?= ../shared/traces/openb
SIMULATE ?= --nodes 300 --load 1 --seed 1

.PHONY: simulation
simulation: ## Play the trace openb of TRACE with five policies, and write docs/simulation.md and its plot (a minute or two).
	@$(STATIC) go run ./hack/simulation -trace "$(TRACE)" -doc docs/simulation.md -args "$(SIMULATE)"

.PHONY: simulation-check
simulation-check: ## Play it too, and fail if docs/simulation.md or its plot is not what the program prints.
	@$(STATIC) go run ./hack/simulation -check -trace "$(TRACE)" -doc docs/simulation.md -args "$(SIMULATE)"

# The number of seeds that simulation-lists plays for each list of pods in TRACE, and the sample of each list: every fifth
# pod or gang, on a fifth of the 300 nodes.
SEEDS ?= 5
LISTS ?= -every 5 -nodes 60

.PHONY: simulation-lists
simulation-lists: ## Play a sample of every list of pods in TRACE, and write the losses into docs/cost.md (half an hour).
	@$(STATIC) go run ./hack/simulation -lists $(SEEDS) -trace "$(TRACE)" -doc docs/cost.md $(LISTS)

# The rows of bench-compare, as for go test -bench, and the number of timings of each side.
BENCH ?= .
ROUNDS ?= 6

.PHONY: bench-compare
bench-compare: ## Time decisions of another commit and of the work tree in turn, and print the ratios: BASE=<commit>.
	@hack/bench-compare.sh "$(BASE)" "$(ROUNDS)" "$(BENCH)"

.PHONY: verify
verify: verify-modules verify-generated verify-web verify-changelog verify-prose verify-commits verify-format vet lint ## Run all checks except the tests: modules, generated files, changelog, language, format, vet, lint.

.PHONY: lint
lint: ## Run the linters.
	@echo "==> lint"
	@$(STATIC) $(LINT) config verify
	@$(STATIC) $(LINT) run --allow-parallel-runners
	@cd $(RELEASE_MODULE) && $(STATIC) go tool -modfile=../tools/lint/go.mod golangci-lint run --allow-parallel-runners

.PHONY: vet
vet: ## Run go vet.
	@echo "==> vet"
	@for module in . $(CHART_TESTS) $(RELEASE_MODULE); do $(STATIC) go -C $$module vet ./... || exit 1; done

.PHONY: fmt
fmt: ## Format the Go files.
	@$(STATIC) $(LINT) fmt

.PHONY: generate
generate: ## Write the generated files again: deep copies, CRDs, pages, and the chart's copies of deploy/.
	@$(STATIC) hack/generate.sh .

.PHONY: web
web: ## Build the page of kubectl reprieve report from web/ (needs Node.js 20 and npm).
	npm --prefix web ci --no-audit --no-fund
	npm --prefix web run build

.PHONY: web-test
web-test: kubectl-reprieve ## Open that page in Chromium and check its text, its layout and its accessibility (after make web).
	npm --prefix web test

.PHONY: tidy
tidy: ## Bring the go.mod files up to date.
	@for module in $(MODULES); do go -C $$module mod tidy || exit 1; done

.PHONY: verify-format
verify-format:
	@echo "==> format"
	@$(STATIC) $(LINT) fmt --diff || { echo "Not formatted as above. Run 'make fmt'." >&2; exit 1; }

.PHONY: verify-generated
verify-generated:
	@echo "==> generated files"
	@$(STATIC) hack/verify-generated.sh

# Compare hashes, so that the check does not need npm.
.PHONY: verify-web
verify-web:
	@echo "==> the page of web/"
	@$(STATIC) go test ./internal/report -run '^TestPageIsBuiltFromItsSources$$' > /dev/null || \
		{ echo "internal/report/page is not what web/ has. Run 'make web'." >&2; exit 1; }

.PHONY: verify-changelog
verify-changelog:
	@echo "==> changelog"
	@$(STATIC) go -C $(RELEASE_MODULE) test -count=1 ./internal/changelog -run '^TestOfThisRepository$$'

# The rules are in docs/writing.md. Vale is compiled on the first run, with a C compiler.
.PHONY: verify-prose
verify-prose:
	@echo "==> language"
	@$(PROSE) check

# The commit to compare with; for a pull request, its target branch.
BASE ?=

.PHONY: verify-commits
verify-commits:
	@echo "==> subjects of commits"
	@$(PROSE) commits -base "$(BASE)"

.PHONY: prose
prose: ## Print how often constructions that stop a reader occur per 1,000 words of comments and pages.
	@$(PROSE) numbers internal cmd pkg api docs

# The packages, pages or folders to list the findings of.
IN ?= .

.PHONY: prose-list
prose-list: ## List the findings about the language of packages and pages: IN="internal/queue docs/queues.md".
	@$(PROSE) list $(IN)

# The seed of the random choice.
SEED ?= 1

.PHONY: prose-sample
prose-sample: ## Draw 40 comments and the first screens of 20 pages to read: SEED=7.
	@$(PROSE) sample -seed $(SEED) $(IN)

MOVED ?=

.PHONY: prose-baseline
prose-baseline: ## Lower the baseline of the language check to the findings of the work tree.
	@$(PROSE) baseline $(if $(MOVED),-moved)

.PHONY: verify-modules
verify-modules:
	@echo "==> modules"
	@for module in $(MODULES); do \
		go -C $$module mod tidy -diff || { echo "$$module/go.mod is not tidy. Run 'make tidy'." >&2; exit 1; }; \
	done

STEPS := $(words $(COMPONENTS) $(COMMANDS))

$(BIN)/etcd: PACKAGE := go.etcd.io/etcd/server/v3
$(BIN)/etcd: STEP := [1/$(STEPS)]
$(BIN)/kube-apiserver: PACKAGE := k8s.io/kubernetes/cmd/kube-apiserver
$(BIN)/kube-apiserver: STEP := [2/$(STEPS)]
$(BIN)/kube-controller-manager: PACKAGE := k8s.io/kubernetes/cmd/kube-controller-manager
$(BIN)/kube-controller-manager: STEP := [3/$(STEPS)]
$(BIN)/kwok: PACKAGE := sigs.k8s.io/kwok/cmd/kwok
$(BIN)/kwok: STEP := [4/$(STEPS)]
reprieve-scheduler: STEP := [5/$(STEPS)]
kubectl-reprieve: STEP := [6/$(STEPS)]
playground: STEP := [7/$(STEPS)]

# Not part of build: for machines without a kubectl.
$(BIN)/kubectl: PACKAGE := k8s.io/kubernetes/cmd/kubectl

$(BIN)/kubectl $(addprefix $(BIN)/,$(COMPONENTS)): hack/tools/go.mod
	@echo "$(strip $(STEP) $(@F))"
	@$(BUILD) "$(strip $(STEP) $(@F))" -C hack/tools -trimpath -ldflags "$(KUBE_LDFLAGS)" -o $(abspath $@) $(PACKAGE)
	@touch $@

# Helm's command, in the version of the engine that test/chart uses.
$(BIN)/helm: test/chart/go.mod
	@echo "$(@F)"
	@$(BUILD) "$(@F)" -C test/chart -trimpath -ldflags "-s -w" -o $(abspath $@) helm.sh/helm/v3/cmd/helm
	@touch $@

# For tests only. It is built without the discovery of targets in clouds, which is most of its code.
$(BIN)/prometheus: hack/tools/prometheus/go.mod
	@echo "Prometheus"
	@$(BUILD) "Prometheus" -C hack/tools/prometheus -trimpath -tags remove_all_sd -ldflags "-s -w" -o $(abspath $@) \
		github.com/prometheus/prometheus/cmd/prometheus
	@touch $@

# The control plane of an older version. Both parts are built together, because they share most packages.
$(BIN)/versions/%/kube-apiserver: KUBE_MODULE = hack/tools/kube-$*
$(BIN)/versions/%/kube-apiserver: hack/tools/kube-%/go.mod
	@echo "Kubernetes $*"
	@mkdir -p $(@D)
	@$(BUILD) "Kubernetes $*" -C $(KUBE_MODULE) -trimpath -ldflags "$(KUBE_LDFLAGS)" -o $(abspath $(@D))/ \
		k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

# The go command decides which packages are outdated. Its stamp of the commit is off: the version already has the commit,
# and the stamp fails in a checkout of another user. An unchanged command is not written again, because that would
# invalidate the cached results of the tests that run it.
.PHONY: $(COMMANDS)
$(COMMANDS):
	@echo "$(STEP) $@"
	@$(BUILD) "$(STEP) $@" -trimpath -buildvcs=false \
		-ldflags "$(call KUBE_LDFLAGS,+reprieve.$(subst +,.,$(VERSION)))" -o $(BIN)/$@.new ./cmd/$@
	@if cmp -s $(BIN)/$@.new $(BIN)/$@; then rm $(BIN)/$@.new; else mv $(BIN)/$@.new $(BIN)/$@; fi
