package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
)

// openGateway runs the payment gateway, a separate program with its own ledger, until a signal.
func openGateway(ctx context.Context, args []string, out, errs io.Writer) (err error) {
	f := flags("gateway")
	store := f.String("store", os.Getenv("SKALD_STORE"), "of its ledger")
	prefix := f.String("prefix", "", "of its schema")
	addr := f.String("listen", "127.0.0.1:8090", "where it listens")
	moods := f.String("moods", "none", "none, some or wild")
	seed := f.Uint64("seed", 1, "other numbers are other moods")
	memory := f.Duration("memory", 24*time.Hour, "how long it remembers a key")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	rates, ok := gateway.RatesOf(*moods)
	if !ok {
		return &place.UsageError{What: fmt.Sprintf("--moods is none, some or wild, not %q", *moods)}
	}
	shop, err := place.Open(*store, schemaPrefix(*prefix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	log := slog.New(slog.NewTextHandler(errs, nil))
	var answers http.Handler
	err = waiting(ctx, log, "gateway", func() (err error) {
		answers, err = shop.Gateway(ctx, &gateway.Options{Memory: *memory, Funds: sample.Accounts()},
			gateway.NewMoods(*seed, rates))
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	web, at, err := listen(*addr, answers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "gateway: http://%s\n", at)
	log.Info("serving", "service", "gateway")
	return web.Run(ctx)
}
