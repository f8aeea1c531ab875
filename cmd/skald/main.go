// Command skald operates services that use Skald: it creates tables, publishes the outbox, and inspects and
// repairs messages and sagas. docs/commands.md lists all commands.
//
// The commands are in package internal/verbs, and a few of them here. They print data to standard output, and
// everything else to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/verbs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line and returns the exit code. Tests call run instead of main.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	ran := false // an error before the command runs is a usage error
	root := &cobra.Command{
		Use: "skald", Short: "Reliable messaging and sagas: migrate, relay, inspect, repair", Long: about, Example: "  skald demo\n  skald migrate --store sqlite:shop.db\n  skald help environment",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(errs)
			return errors.Join(&cli.UsageError{What: "which command?"}, cli.ErrTold, c.Usage())
		},
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			ran = true
			if err := connect.NoneEmpty(c, args); err != nil {
				return err
			}
			if err := connect.PrintableNames(c); err != nil {
				return err
			}
			return connect.Resolve(c)
		},
	}
	build(root, out, errs)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	c, err := root.ExecuteContextC(ctx)
	if err != nil && !ran {
		err = &cli.UsageError{What: misused(c, err)}
	}
	if err != nil && !errors.Is(err, cli.ErrTold) {
		fmt.Fprintln(cli.Plain(errs), "skald: "+cli.OneLine(err)+cli.Remedy(err))
	}
	return cli.Code(err)
}

// build adds the subcommands to root, with their examples.
func build(root *cobra.Command, out, errs io.Writer) {
	root.AddCommand(allVerbs(out, errs)...)
	root.AddCommand(topics()...)
	for line := range strings.Lines(examples) {
		line = strings.TrimSpace(line)
		c, _, err := root.Find(strings.Fields(line)[1:])
		if err == nil && c != root {
			c.Example = strings.TrimPrefix(c.Example+"\n  "+line, "\n")
		}
	}
	connect.Strict(root)
}

// allVerbs returns the subcommands, in their groups.
func allVerbs(out, errs io.Writer) []*cobra.Command {
	return []*cobra.Command{
		demoCommand(out, errs), initCommand(out), versionCommand(out),
		verbs.Migrate(out), verbs.Roles(out), maintainCommand(out, errs), backupCommand(out),
		verbs.RelaysCommand(errs), verbs.Adopt(out, errs), debeziumCommand(out, errs),
		verbs.OutboxesCommand(out, errs),
		verbs.InboxCommand(out, errs), verbs.ConsumersCommand(out, errs),
		verbs.Parked(out, errs), verbs.Dead(out, errs),
		verbs.SagasCommand(out, errs), verbs.Status(out), verbs.Steps(out), verbs.Compensate(out, errs),
		verbs.DoctorCommand(out), verbs.SchemasCommand(out), consoleCommand(errs),
	}
}

// misused returns the text for a usage error. cobra's errors about arguments get the usage line or a hint.
func misused(c *cobra.Command, err error) string {
	if usage := new(cli.UsageError); errors.As(err, &usage) {
		return usage.What
	}
	if strings.Contains(err.Error(), "arg(s)") {
		return fmt.Sprintf("%v: %s", err, c.UseLine())
	}
	if extra, no := strings.CutPrefix(err.Error(), "unknown command "); no && !c.HasSubCommands() {
		extra, _, _ = strings.Cut(extra, " for ")
		return fmt.Sprintf("%s takes no arguments, but %s was given: see %s --help", c.CommandPath(), extra,
			c.CommandPath())
	}
	return err.Error()
}
