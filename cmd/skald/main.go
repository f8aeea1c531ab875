// Command skald shows what Skald promises, and runs what a production needs of it: tables and relays.
//
//	skald demo       six services, faults thrown at them, and an auditor
//	skald migrate    makes the tables, or brings them up to date
//	skald roles      prints the SQL that gives each role its rights
//	skald relay      carries committed messages to the broker
//	skald adopt      writes down how an outbox table that is there makes messages
//	skald debezium   prints the configuration of a connector that reads the outbox
//	skald outbox     says what waits to be published; writes a message by hand; settles a database that moved
//	skald parked     messages that failed and are tried again
//	skald dead       dead letters: look, redrive, edit, drop, export, import
//	skald steps      steps of sagas: what took effect, what is barred, and by what
//	skald saga       orchestrated sagas: look, explain, draw, retry, complete, skip, cancel …
//	skald status     where a saga stands, and what holds it up
//	skald console    pages that show all of that for several services, and act
//	skald inbox      says what consumers know of a message, and what is in quarantine
//	skald doctor     says what stands against the promises, or the load
//	skald maintain   empties what is older than it is kept
//	skald schema     compares schemas of payloads with a registry, and registers them
//	skald backup     copies a SQLite file while services write it
//	skald init       writes a service to begin with
//	skald version
//
// Each group of them is a package below internal, or a file here. Data goes to standard output, everything
// else to standard error.
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

const about = `Skald: sagas that happen once. It needs nothing but its tables and your broker.

Exit codes: 0 done, also after SIGTERM or SIGINT of relay; 1 other; 2 usage; 3 wrong password or missing right;
4 no such database, schema, topic or message; 5 wrong state (missing table, wrong version, foreign objects, a database that moved or, for recover, did not;
a saga that has ended, or gone another way);
6 server unreachable within 10 s; 7 part of what was meant is done, somebody else was first with the rest; 8 a check failed; 130 demo interrupted.

No password need be an argument: SKALD_STORE and SKALD_BROKER stand for --store and --broker (not of the demo), --store @FILE and --broker @FILE
read the URL from the first line of a file, and PostgreSQL's own PGPASSWORD, PGPASSFILE and ~/.pgpass work; where SKALD_PASSWORD_COMMAND is set, what "sh -c" prints of it is the password
of each new connection to PostgreSQL: a token that lasts for minutes. For brokers it is SKALD_KAFKA_PASSWORD,
SKALD_NATS_PASSWORD, SKALD_RABBITMQ_PASSWORD, or password_file=FILE in the URL.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not want to
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with everything handed in; it returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	ran := false // what fails before a command runs is usage
	root := &cobra.Command{
		Use: "skald", Short: "Sagas that happen once", Long: about,
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
			return connect.Resolve(c)
		},
	}
	root.AddCommand(allVerbs(out, errs)...)
	connect.Strict(root)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	c, err := root.ExecuteContextC(ctx)
	if err != nil && !ran {
		err = &cli.UsageError{What: misused(c, err)}
	}
	if err != nil && !errors.Is(err, cli.ErrTold) {
		fmt.Fprintln(cli.Plain(errs), "skald: "+strings.ReplaceAll(err.Error(), "\n\t", " ")+cli.Remedy(err))
	}
	return cli.Code(err)
}

// allVerbs returns the subcommands, in their groups.
func allVerbs(out, errs io.Writer) []*cobra.Command {
	return []*cobra.Command{
		demoCommand(out, errs), initCommand(out), versionCommand(out),
		verbs.Migrate(out), verbs.Roles(out), maintainCommand(out, errs), backupCommand(out),
		verbs.RelaysCommand(errs), verbs.Adopt(out, errs), debeziumCommand(out, errs),
		verbs.OutboxesCommand(out, errs),
		verbs.ConsumersCommand(out, errs),
		verbs.Parked(out, errs), verbs.Dead(out, errs),
		verbs.SagasCommand(out, errs), verbs.Status(out), verbs.Steps(out), verbs.Compensate(out, errs),
		verbs.DoctorCommand(out), verbs.SchemasCommand(out), consoleCommand(errs),
	}
}

// misused says what is wrong with a command line, and for arguments what they are.
func misused(c *cobra.Command, err error) string {
	if usage := new(cli.UsageError); errors.As(err, &usage) {
		return usage.What
	}
	if strings.Contains(err.Error(), "arg(s)") {
		return fmt.Sprintf("%v: %s", err, c.UseLine())
	}
	if extra, no := strings.CutPrefix(err.Error(), "unknown command "); no && !c.HasSubCommands() {
		extra, _, _ = strings.Cut(extra, " for ")
		return fmt.Sprintf("%s takes no argument, and %s is one: see %s --help", c.CommandPath(), extra,
			c.CommandPath())
	}
	return err.Error()
}
