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

// smallHeap is the value of GOGC for a demo, in percent. With it, six databases, a broker and the services
// need less than 60 MB of memory.
const smallHeap = 50

const demoAbout = `Runs the six services of a shop in this process, places orders and injects faults. When all orders
have ended, an auditor reads only the databases of the services, and checks every promise.

If the process is killed, the same command with the same --dir or --prefix continues. A second demo
with the same folder or prefix is refused with exit code 5.

--keep leaves the services running after the verdict, without faults and with all safeguards. Standard
error then has the URLs for orders and of the console. A signal stops the services.

The exit code is 0 if all promises are kept, else 8. --sabotage removes a safeguard, so promises break:
the exit code is 8, or 1 if the auditor finds nothing.

Stores: sqlite:FOLDER, postgres://…    Brokers: mem:, kafka://host:port[,host:port], nats://…, amqp://…`

func demoCommand(out, errs io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	var asJSON, verbose, keep bool
	c := &cobra.Command{
		Use: "demo", Short: "Run six services under faults and audit their databases", Long: demoAbout,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Given = map[string]bool{}
			for _, name := range []string{"seed", "orders", "prefix", "sabotage", "style"} {
				o.Given[name] = c.Flags().Changed(name)
			}
			warnIgnored(c, errs)
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
			return runDemo(c.Context(), o, asJSON, verbose, out, errs)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Orders, "orders", 200, "place `N` orders")
	f.StringVar(&o.Faults, "faults", "some", "`LEVEL` of faults: none, some or wild")
	f.StringVar(&o.Store, "store", "",
		"`URL` of the databases: sqlite:FOLDER, postgres://… or @FILE (default: a new temporary folder)")
	f.StringVar(&o.Broker, "broker", "mem:",
		"`URL` of the broker: mem:, kafka://…, nats://…, amqp://… or @FILE")
	f.StringVar(&o.Redis, "redis", "",
		"`URL` of a cache, redis://HOST:PORT: it may fail, be empty or be wrong (default: none)")
	f.StringVar(&dir, "dir", "", "`DIR` of SQLite files, short for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "`P` of the names of schemas (P_order, …), topics (P.orders, …) and groups")
	f.Uint64Var(&o.Seed, "seed", 1, "`N` selects other orders and other faults")
	f.StringVar(&o.Sabotage, "sabotage", "", "remove this `SAFEGUARD`: "+strings.Join(demo.Sabotages(), ", "))
	f.StringVar(&o.Style, "style", demo.Styles()[0],
		"`STYLE` of the saga: choreographed, by events between services, or orchestrated, by the order service")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	f.BoolVar(&keep, "keep", false,
		"keep the services running after the verdict, with an HTTP endpoint for orders and the console")
	f.BoolVar(&verbose, "verbose", false, "print each broken order, the whole story, and the logs of the services")
	c.AddCommand(showCommand(out), removeCommand(out, errs))
	return c
}

func showCommand(out io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	t := &cli.Output{Out: out}
	c := &cobra.Command{
		Use: "show ORDER", Short: "Show the history of one order of a demo",
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
	f.StringVar(&o.Store, "store", "", "`URL` of the databases: sqlite:FOLDER, postgres://… or @FILE")
	f.StringVar(&dir, "dir", "", "`DIR` of SQLite files, short for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "`P` of the names of schemas (P_order, …)")
	return c
}

// warnIgnored prints a warning that the demo ignores SKALD_STORE and SKALD_BROKER. These variables select the
// servers of a real service, and the demo must not write there.
func warnIgnored(c *cobra.Command, errs io.Writer) {
	var names, flags []string
	for _, flag := range []string{"store", "broker"} {
		name := connect.URLFlags()[flag]
		if given := c.Flags().Changed(flag) || flag == "store" &&
			c.Flags().Changed("dir"); os.Getenv(name) != "" && !given {
			names, flags = append(names, name), append(flags, "--"+flag)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(errs, "skald: the demo ignores %s; to use it, give %s\n",
			strings.Join(names, " and "), strings.Join(flags, " and "))
	}
}

// whichDemo sets o.Store to the store of an earlier demo, from --dir or --store.
func whichDemo(c *cobra.Command, o *demo.Options, dir string) error {
	if dir != "" && o.Store == "" {
		o.Store = "sqlite:" + dir
	}
	if o.Store == "" || dir != "" && c.Flags().Changed("store") {
		return &cli.UsageError{What: "which demo? Give either --dir or --store"}
	}
	return nil
}

// chooseStore sets the store by --dir or --store, or else to a new temporary folder.
func chooseStore(c *cobra.Command, o *demo.Options, dir string) error {
	if dir != "" {
		if c.Flags().Changed("store") {
			return &cli.UsageError{What: "--dir means --store sqlite:DIR: give one of the two"}
		}
		o.Store = "sqlite:" + dir
		return nil
	}
	if err := o.Check(); o.Store != "" || err != nil {
		return err // check the options before MkdirTemp
	}
	folder, err := os.MkdirTemp("", "skald-demo-")
	if err != nil {
		return fmt.Errorf("create a folder: %w", err)
	}
	o.Store = "sqlite:" + folder
	return nil
}

func runDemo(ctx context.Context, o demo.Options, asJSON, verbose bool, out, errs io.Writer) error {
	began := time.Now()
	t := &ticker{out: errs, terminal: cli.Terminal(errs), quiet: asJSON}
	t.begin(o)
	o.Progress = t.progress
	o.First = func() { t.note("first order placed %d ms after start", time.Since(began).Milliseconds()) }
	o.Told = func(r *demo.Report) error {
		t.end()
		if !asJSON {
			return printReport(out, r, o, verbose)
		}
		enc := cli.JSON(out)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	err := demo.Run(ctx, o)
	t.end()
	if errors.Is(err, cli.ErrInterrupted) {
		return fmt.Errorf("%w: to continue: %s", err, commandLine(self()+" demo", o, connect.Shown(o.Store)))
	}
	return err
}

// staying is the message for --keep after the verdict. Its arguments are the URL for orders and the URL of
// the console.
const staying = `orders: %[1]s until a signal; place an order, and read its state with GET /orders/ID/status:
  curl -H 'Idempotency-Key: mine-1' -d '{"customer":"ada","items":[{"sku":"tea","quantity":2}]}' %[1]s
console: %[2]s shows and changes the six databases
`

// self returns the command line that runs this program. It is a go command if `go run` built the program.
func self() string {
	path, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/skald"
	}
	return "skald"
}

// commandLine returns the command line of a call with flags for the same databases and broker. The argument
// store must have no password.
func commandLine(call string, o demo.Options, store string) string {
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
