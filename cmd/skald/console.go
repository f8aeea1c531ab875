package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/verbs"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/store"
)

const consoleAbout = `Serves web pages over the databases of one or more services. The pages show messages, consumers and
sagas, and have the verbs of skald dead, parked, inbox, consumer, saga and compensate. Each verb begins
with a dry run and is recorded in skald_audit. The console stores nothing itself. A service can mount
the same pages with package console.

The printed URL has a token that opens one session. Only that session on this machine has access, with
all rights. The audit names the session. A bulk action stops when this process ends; another console or
the same command continues it.`

func consoleCommand(errs io.Writer) *cobra.Command {
	var stores, schemas []string
	var listen string
	c := &cobra.Command{Use: "console", Short: "Serve the web console: inspect and repair messages and sagas",
		Long: consoleAbout, Args: cobra.NoArgs}
	f := c.Flags()
	f.StringArrayVar(&stores, "store", nil,
		"`NAME=URL` of a service's database: sqlite:FILE, postgres://… or @FILE; repeatable (default: store=SKALD_STORE)")
	f.StringArrayVar(&schemas, "schema", nil,
		"`NAME=SCHEMA` of a service's tables, PostgreSQL only; repeatable (default: public)")
	f.StringVar(&listen, "listen", "127.0.0.1:7780", "`ADDRESS` of this machine; port 0 selects a free port")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if at := os.Getenv("SKALD_STORE"); len(stores) == 0 && at != "" {
			stores = []string{"store=" + at}
		}
		sources, end, err := consoleSources(c.Context(), stores, schemas)
		if err != nil {
			return err
		}
		defer end()
		return serveConsole(c.Context(), listen, sources, errs)
	}
	return c
}

// named parses flags of the form NAME=VALUE. names has their order.
func named(flag string, given []string) (names []string, values map[string]string, err error) {
	values = map[string]string{}
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" || value == "" || strings.ContainsAny(name, ":/@") {
			return nil, nil, &cli.UsageError{What: fmt.Sprintf("--%s is NAME=VALUE, such as orders=…", flag)}
		}
		if values[name] != "" {
			return nil, nil, &cli.UsageError{What: fmt.Sprintf("--%s %s is given twice", flag, name)}
		}
		names, values[name] = append(names, name), value
	}
	return names, values, nil
}

func consoleSources(ctx context.Context, stores,
	schemas []string) (sources map[string]console.Source, end func(), err error) {
	names, urls, err := named("store", stores)
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 0 {
		return nil, nil,
			&cli.UsageError{What: "which databases? Give --store NAME=URL, once for each service"}
	}
	_, of, err := named("schema", schemas)
	if err != nil {
		return nil, nil, err
	}
	for name := range of {
		if urls[name] == "" {
			return nil, nil,
				&cli.UsageError{What: fmt.Sprintf("--schema %s: no --store has that name", name)}
		}
	}
	sources = map[string]console.Source{}
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	for _, name := range names {
		s, done, err := consoleSource(ctx, urls[name], of[name])
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		sources[name], ends = s, append(ends, done)
	}
	return sources, end, nil
}

// consoleSource opens a database. It also succeeds if the server does not answer, and the pages then show the
// error.
func consoleSource(ctx context.Context, typed, schema string) (s console.Source, end func(), err error) {
	at := typed
	if file, ok := strings.CutPrefix(typed, "@"); ok {
		text, err := cli.ReadFile(file, cli.MostURL)
		if err != nil {
			return s, nil, &cli.NoneError{What: fmt.Sprintf("read the URL: %v", err)}
		}
		line, _, _ := strings.Cut(string(text), "\n")
		at = strings.TrimSpace(line)
	}
	db, err := verbs.Open(at, schema, "")
	if err != nil {
		return s, nil, err
	}
	if on, ok := db.(verbs.Server); ok {
		return on.Console(ctx, typed)
	}
	all, end, err := db.Stores(ctx, verbs.Rooms{})
	if err != nil {
		return s, nil, err
	}
	is, ok := all[0].(store.Driver[*sql.Tx])
	if !ok {
		end()
		return s, nil, fmt.Errorf("the console does not support %T", all[0])
	}
	return console.NewSource(is).WithFlags(connect.SQLite(at)), end, nil
}

func serveConsole(ctx context.Context, listen string, sources map[string]console.Source,
	errs io.Writer) error {
	at, err := net.Listen("tcp", listen)
	if err != nil {
		return &cli.UsageError{What: fmt.Sprintf("--listen: %v", err)}
	}
	if host, ok := at.Addr().(*net.TCPAddr); !ok || !host.IP.IsLoopback() {
		_ = at.Close()
		return &cli.UsageError{
			What: fmt.Sprintf("--listen %s: only addresses of this machine, such as 127.0.0.1:7780. For others, mount package console in a service with a login", listen)}
	}
	own := newSession()
	h := console.New("", sources, &console.Options{Local: connect.Whoami() + ", " + own.name, Actions: ctx,
		Logger: slog.New(slog.NewTextHandler(errs, nil))})
	own.pages = h
	s := &http.Server{Handler: own, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	over := make(chan error, 1)
	go func() { over <- s.Serve(at) }()
	fmt.Fprintf(errs, "console: http://%s/?%s=%s until a signal; the token opens one session\n", at.Addr(),
		tokenArg, own.token)
	select {
	case err := <-over:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(last) != nil {
		_ = s.Close() // cancel the requests that are still running
	}
	noted, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := h.Wait(noted); err != nil { // bulk actions must record their end before the databases close
		fmt.Fprintf(errs, "console: %v: another console or command can continue them\n", err)
	}
	if err := <-over; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
