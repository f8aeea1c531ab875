# Everything a contributor runs. Plain `make` lists it.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help check test lint bench services-up services-down

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## before each commit: format, vet, short tests without servers, a build without cgo (3 minutes at most)
	@scripts/test check

test: ## everything, with PostgreSQL (oldest and newest), PgBouncer, Kafka, RabbitMQ and NATS, most of it under the race detector (45 minutes at most on two cores)
	@scripts/test all

lint: ## gofmt, go vet and staticcheck, for all modules
	@scripts/lint $(STATICCHECK)

bench: ## the table of docs/benchmarks.md, from bench/; BENCH='…' passes flags
	@[ -f bench/go.mod ] || { echo "bench/ has no go.mod: there are no benchmarks in this checkout" >&2; exit 1; }
	@scripts/services up
	@eval "$$(scripts/services env)" && cd bench && go run . $(BENCH)

services-up: ## start PostgreSQL and Kafka for tests; then: eval "$(scripts/services env)"
	@scripts/services up

services-down: ## end them and remove their data
	@scripts/services down
