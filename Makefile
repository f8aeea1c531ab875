# Everything a contributor runs. Plain `make` lists it.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.DEFAULT_GOAL := help
.PHONY: help check test nightly soak versions connectors lint audit size bench services-up services-down

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## before each commit: format, vet, short tests without servers, a build without cgo (2 minutes at most)
	@scripts/test check

test: ## everything, with PostgreSQL (oldest and newest), PgBouncer, Kafka, RabbitMQ, NATS and Redis, the tests in which goroutines meet under the race detector too (a quarter of an hour or more on two cores)
	@scripts/test all

lint: ## gofmt, go vet and staticcheck, for all modules
	@scripts/lint $(STATICCHECK)

audit: ## known vulnerabilities in what is linked; says so where their database cannot be reached
	@scripts/audit $(GOVULNCHECK)

size: ## the size of the stripped command, with its demo and without; fails where it is above its bound
	@scripts/size

nightly: ## what make test samples: everything under the race detector, every schedule of the explorers, the suite of stores in each mode of pgx: hours
	@scripts/test nightly

SAGAS := 100000
FOR := 0

soak: ## 10^5 sagas of the shop while its processes are killed and PostgreSQL and Kafka restart, on servers of its own: hours; SAGAS=3000 or FOR=30m for fewer
	@scripts/services up postgres kafka
	@eval "$$(scripts/services env)" && go test -count=1 -v -timeout 48h -run '^TestSoak$$' ./examples/shop/killtest -soak.sagas=$(SAGAS) -soak.for=$(FOR)

versions: ## the conformance suites on other versions of the servers: PostgreSQL 15 to 18, PgBouncer 1.24, three nodes of RabbitMQ 4
	@scripts/test versions

connectors: ## the real Debezium beside our relay, and a writer on Node.js: minutes, which `make test` does not take
	@scripts/services up postgres kafka debezium node
	@eval "$$(scripts/services env)" && SKALD_TEST_CONNECTORS=1 go test -count=1 -run '^(TestDebezium|TestDebeziumSwitched|TestDebeziumEmpties|TestForeignWriters)$$' ./cmd/skald

bench: ## the table of docs/dev/benchmarks.md, from bench/; BENCH='…' passes flags
	@[ -f bench/go.mod ] || { echo "bench/ has no go.mod: there are no benchmarks in this checkout" >&2; exit 1; }
	@scripts/services up
	@eval "$$(scripts/services env)" && cd bench && go run . $(BENCH)

services-up: ## start PostgreSQL and Kafka for tests; then: eval "$(scripts/services env)"
	@scripts/services up

services-down: ## end them and remove their data
	@scripts/services down
