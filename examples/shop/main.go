// Command shop is an example: six services that process orders with Skald.
//
//	go run ./examples/shop serve all --store sqlite:shop --broker mem: --listen 127.0.0.1:8080
//	go run ./examples/shop load --url http://127.0.0.1:8080 --orders 200
//	go run ./examples/shop audit --store sqlite:shop
//
// README.md describes their messages.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/skald-go/skald/examples/shop/place"
)

const usage = `The shop: an example of services over Skald.

  shop serve SERVICE|all --store URL --broker URL [--listen ADDR] [--instance NAME] [--prefix P] [--metrics ADDR] [--gateway URL]
             [--mail HOST:PORT] [--answer ADDR] [--ask NAME=URL …] [--orchestrated]
             [--payments avro|protobuf --registry URL]
  shop load --url URL [--orders N] [--seed N] [--wait DURATION]
  shop audit --store URL [--json] [--prefix P]
  shop gateway --store URL [--listen ADDR] [--prefix P] [--moods none|some|wild] [--seed N] [--memory DURATION]
  shop mail --store URL [--listen ADDR] [--prefix P] [--moods none|some|wild] [--seed N]

SERVICE is order, payment, inventory, fulfilment, notification or analytics.
Stores: sqlite:FOLDER, postgres://…    Brokers: mem: (with "all" only), kafka://host:port[,host:port], nats://…, amqp://…
--answer is the address where this process reports what holds up an order at its services; --ask gives that address to the process that
serves order, once for each service of another process: the status of an order then includes that service.
--orchestrated, at each service of a shop from its first order on: a saga in Order runs the process.
--payments, at each service: payment.taken is sent in Avro or Protobuf, with a schema registry; default JSON. avro:1 and protobuf:1 are a
build without payment_method.
SKALD_STORE and SKALD_BROKER are the defaults of --store and --broker. Traces and metrics go to OTEL_EXPORTER_OTLP_ENDPOINT, if it is set.

Exit codes: 0 done; 1 it failed; 2 usage; 3 a promise is broken, or an order has not ended in time.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its inputs and outputs as arguments; it returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUsage
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"serve": serve, "load": load, "audit": check, "gateway": openGateway, "mail": openMail,
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(errs, "shop: unknown command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	err := command(ctx, args[1:], out, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return 0
	case err != nil:
		fmt.Fprintf(errs, "shop %s: %v\n", args[0], err)
	}
	return exitCode(err)
}

const (
	exitUsage  = 2
	exitFailed = 3
)

// errFailed means that a promise is broken, or an order has not ended in time.
var errFailed = errors.New("failed")

func exitCode(err error) int {
	var usage *place.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errFailed):
		return exitFailed
	}
	return 1
}

// flags returns an empty flag set that prints nothing.
func flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse parses args: flags and at most most other arguments, in any order. It returns the others.
func parse(f *flag.FlagSet, args []string, most int) (others []string, err error) {
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, &place.UsageError{What: err.Error()}
		}
		if args = f.Args(); len(args) > 0 {
			others, args = append(others, args[0]), args[1:]
		}
	}
	if len(others) > most {
		return nil, &place.UsageError{What: fmt.Sprintf("unexpected argument %q", others[most])}
	}
	return others, nil
}

const prefixUsage = "of schemas (P_order, …), topics (P.orders, …) and groups; none: schemas shop_order, …, topics orders, …"

func schemaPrefix(prefix string) string {
	if prefix == "" {
		return "shop"
	}
	return prefix
}
