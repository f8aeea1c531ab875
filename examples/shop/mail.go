package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/place"
)

// openMail runs the mail server, a separate program with its own mailbox, until a signal.
func openMail(ctx context.Context, args []string, out, errs io.Writer) (err error) {
	f := flags("mail")
	store := f.String("store", os.Getenv("SKALD_STORE"), "of its mailbox")
	prefix := f.String("prefix", "", "of its schema")
	addr := f.String("listen", "127.0.0.1:8025", "where it listens")
	moods := f.String("moods", "none", "none, some or wild")
	seed := f.Uint64("seed", 1, "other numbers are other moods")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	rates, ok := mail.RatesOf(*moods)
	if !ok {
		return &place.UsageError{What: fmt.Sprintf("--moods is none, some or wild, not %q", *moods)}
	}
	shop, err := place.Open(*store, schemaPrefix(*prefix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	log := slog.New(slog.NewTextHandler(errs, nil))
	var server *mail.Server
	err = waiting(ctx, log, "mail", func() (err error) {
		server, err = shop.Mail(ctx, mail.NewMoods(*seed, rates))
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	at, err := net.Listen("tcp", *addr)
	if err != nil {
		return &place.UsageError{What: fmt.Sprintf("listen: %v", err)}
	}
	fmt.Fprintf(out, "mail: smtp://%s\n", at.Addr())
	log.Info("serving", "service", "mail")
	return server.Serve(ctx, at)
}
