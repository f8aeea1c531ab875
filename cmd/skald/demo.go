//go:build !nodemo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/demo"
	"github.com/skald-go/skald/internal/shortlog"
)

// smallHeap is how much garbage a demo may have, in percent of what it needs: it stays below 60 MB resident,
// six databases, a broker and the command itself included.
const smallHeap = 50

const demoAbout = `Runs the six services of a shop in this process, places orders, throws faults at all of it, waits until everything
has come to rest, and lets an auditor that reads only the services' databases say whether every promise was kept.

Killed at any moment, it goes on where it was when it is started again with the same --dir or --prefix. Two at once with
the same are refused (exit code 5).

Stores: sqlite:FOLDER, postgres://…    Brokers: mem:, kafka://host:port[,host:port], nats://…, amqp://…

With --keep the services then go on, without faults and with all safeguards, and say on standard error where they take
orders, and where the console over their databases is; a signal ends them. The exit code is the verdict's.

Exit code 0 only if all promises are kept, else 8. With --sabotage: 8, and 1 if the auditor finds nothing.`

func demoCommand(out, errs io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	var asJSON, verbose, keep bool
	c := &cobra.Command{
		Use: "demo", Short: "Six services, faults thrown at them, and an auditor", Long: demoAbout,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Given = map[string]bool{}
			for _, name := range []string{"seed", "orders", "prefix", "sabotage", "style"} {
				o.Given[name] = c.Flags().Changed(name)
			}
			leftAlone(c, errs)
			if err := chooseStore(c, &o, dir); err != nil {
				return err
			}
			o.Typed = connect.Typed(connect.Store(c), o.Store)
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(smallHeap)
			}
			o.Logger = logger(errs, verbose)
			if keep {
				o.Operator = connect.Whoami()
				o.Keep = func(orders, console string) { fmt.Fprintf(errs, staying, orders, console) }
			}
			return runDemo(c.Context(), o, asJSON, out, errs)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Orders, "orders", 200, "how many")
	f.StringVar(&o.Faults, "faults", "some", "none, some or wild")
	f.StringVar(&o.Store, "store", "",
		"sqlite:FOLDER or postgres://… or @FILE (default: a new temporary folder)")
	f.StringVar(&o.Broker, "broker", "mem:",
		"mem:, kafka://host:port[,host:port][?option=value&…], nats://…, amqp://… or @FILE")
	f.StringVar(&o.Redis, "redis", "",
		"redis://HOST:PORT, a cache in front of the databases: it may be away, empty or wrong (default: none)")
	f.StringVar(&dir, "dir", "", "stands for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "of schemas (P_order, …), topics (P.orders, …) and groups")
	f.Uint64Var(&o.Seed, "seed", 1, "other numbers are other orders and other faults")
	f.StringVar(&o.Sabotage, "sabotage", "", "leave a safeguard out: "+strings.Join(demo.Sabotages(), ", "))
	f.StringVar(&o.Style, "style", demo.Styles()[0],
		"choreographed: each service knows what comes next; or orchestrated: a saga of Order's does")
	f.BoolVar(&asJSON, "json", false, "print one object and nothing else")
	f.BoolVar(&keep, "keep", false,
		"stay up after the verdict, without faults, take orders over HTTP and show the console, until a signal")
	f.BoolVar(&verbose, "verbose", false, "let the services log to standard error")
	c.AddCommand(showCommand(out), removeCommand(out, errs))
	return c
}

func showCommand(out io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	t := &cli.Tidings{Out: out}
	c := &cobra.Command{
		Use: "show ORDER", Short: "The story of one order of a demo, from its databases",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := whichDemo(c, &o, dir); err != nil {
				return err
			}
			lines, err := demo.Show(c.Context(), o, args[0])
			if err == nil {
				err = t.Say("story", lines, strings.Join(lines, "\n"))
			}
			return t.End(err)
		},
	}
	t.Flag(c)
	f := c.Flags()
	f.StringVar(&o.Store, "store", "", "sqlite:FOLDER, postgres://… or @FILE")
	f.StringVar(&dir, "dir", "", "stands for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "of the schemas (P_order, …)")
	return c
}

// leftAlone says that a demo takes no database and no broker from the environment: they are a service's.
func leftAlone(c *cobra.Command, errs io.Writer) {
	var names, flags []string
	for _, flag := range []string{"store", "broker"} {
		name := connect.URLFlags()[flag]
		if given := c.Flags().Changed(flag) || flag == "store" &&
			c.Flags().Changed("dir"); os.Getenv(name) != "" && !given {
			names, flags = append(names, name), append(flags, "--"+flag)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(errs, "skald: the demo leaves %s alone; if it is meant, give %s\n",
			strings.Join(names, " and "), strings.Join(flags, " and "))
	}
}

// whichDemo is the store of a demo that has been.
func whichDemo(c *cobra.Command, o *demo.Options, dir string) error {
	if dir != "" && o.Store == "" {
		o.Store = "sqlite:" + dir
	}
	if o.Store == "" || dir != "" && c.Flags().Changed("store") {
		return &cli.UsageError{What: "which demo? Give --dir or --store, one of them"}
	}
	return nil
}

// chooseStore is --dir, --store, or else a new temporary folder.
func chooseStore(c *cobra.Command, o *demo.Options, dir string) error {
	if dir != "" {
		if c.Flags().Changed("store") {
			return &cli.UsageError{What: "--dir stands for --store sqlite:DIR: give one of them"}
		}
		o.Store = "sqlite:" + dir
		return nil
	}
	if err := o.Check(); o.Store != "" || err != nil {
		return err // before a folder is made for nothing
	}
	folder, err := os.MkdirTemp("", "skald-demo-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	o.Store = "sqlite:" + folder
	return nil
}

func runDemo(ctx context.Context, o demo.Options, asJSON bool, out, errs io.Writer) error {
	began := time.Now()
	t := &ticker{out: errs, terminal: cli.Terminal(errs), quiet: asJSON}
	t.begin(o)
	o.Progress = t.progress
	o.First = func() { t.note("first order placed %d ms after start", time.Since(began).Milliseconds()) }
	o.Told = func(r *demo.Report) error {
		t.end()
		if !asJSON {
			return tell(out, r, o)
		}
		enc := cli.JSON(out)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	err := demo.Run(ctx, o)
	t.end()
	if errors.Is(err, cli.ErrInterrupted) {
		return fmt.Errorf("%w: go on with: %s", err, command(self()+" demo", o, connect.Shown(o.Store)))
	}
	return err
}

// staying says, after the verdict, how to place an order, and where to look at all of them.
const staying = `orders: %[1]s until a signal; place one, and ask for it by GET /orders/ID/status:
  curl -H 'Idempotency-Key: mine-1' -d '{"customer":"ada","items":[{"sku":"tea","quantity":2}]}' %[1]s
console: %[2]s shows the six databases, and acts on them
`

// self is what to type for this command: `go run` leaves no skald behind, only a program among what it has
// built.
func self() string {
	path, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/skald"
	}
	return "skald"
}

// command is what to call with the same databases and broker; store is without a password.
func command(call string, o demo.Options, store string) string {
	words := []string{call}
	if folder, ok := strings.CutPrefix(store, "sqlite:"); ok {
		words = append(words, "--dir", shortlog.Shell(folder))
	} else {
		words = append(words, "--store", shortlog.Shell(store))
	}
	if o.Broker != "mem:" {
		words = append(words, "--broker", shortlog.Shell(o.Broker))
	}
	if o.Given["prefix"] {
		words = append(words, "--prefix", o.Prefix)
	}
	return strings.Join(words, " ")
}
