package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/shortlog"
)

const initAbout = `Writes a Go service for PostgreSQL (pgx) and a broker into a new or empty folder, with tests, a Makefile
and a compose file. The service compiles as it is, and its README lists the first commands. There are three kinds:

  without a flag   an HTTP endpoint that takes an Idempotency-Key, an event, and a handler
  --saga           an HTTP endpoint that starts an orchestrated saga. With --broker one step is a command to another service
  --participant    the other service: it takes the commands, and undoes them`

func initCommand(out io.Writer) *cobra.Command {
	var module, bus string
	var withSaga, participant bool
	t := &cli.Output{Out: out}
	c := &cobra.Command{Use: "init DIR", Short: "Write a new service", Long: initAbout,
		Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&module, "module", "", "the path of its module (default: the folder's name)")
	c.Flags().StringVar(&bus, "broker", "", strings.Join(cli.Brokers(), ", ")+
		" (default: kafka; with --saga none)")
	c.Flags().BoolVar(&withSaga, "saga", false, "a service that runs an orchestrated saga")
	c.Flags().BoolVar(&participant, "participant", false, "a service that takes the commands of sagas")
	t.Flag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		s, err := selectedService(args[0], module, bus, withSaga, participant)
		if err != nil {
			return err
		}
		names, err := s.Write(args[0])
		var full *cli.NotEmptyError
		if errors.As(err, &full) {
			return &cli.UsageError{What: full.Error()}
		}
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
		return t.End(tellInit(t, s, args[0], names))
	}
	return c
}

// selectedService returns the service that the flags select.
func selectedService(dir, module, bus string, withSaga, participant bool) (s cli.Service, err error) {
	if module == "" {
		full, err := filepath.Abs(dir)
		if err != nil {
			return s, err
		}
		module = strings.ToLower(filepath.Base(full))
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`).MatchString(module) {
		return s, &cli.UsageError{What: fmt.Sprintf(
			"%q is no module path: give a path such as --module example.com/orders", module)}
	}
	if bus != "" && !slices.Contains(cli.Brokers(), bus) {
		return s, &cli.UsageError{What: fmt.Sprintf("--broker %q: there are templates for %s", bus,
			strings.Join(cli.Brokers(), ", "))}
	}
	if withSaga && participant {
		return s, &cli.UsageError{What: "--saga and --participant are two services: call init once for each"}
	}
	s = cli.Of(module)
	switch {
	case withSaga:
		s.Kind = cli.Saga
	case participant:
		s.Kind = cli.Participant
	}
	if s.Broker = bus; bus == "" && !withSaga {
		s.Broker = "kafka"
	}
	return s, nil
}

func tellInit(t *cli.Output, s cli.Service, dir string, names []string) error {
	slices.Sort(names)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	next := []string{"cd " + shortlog.Shell(dir)}
	if strings.HasPrefix(s.Skald, cli.Unreleased) { // v0.0.0 or v0.0.0-…: module proxies do not have it
		next = append(next,
			"go mod edit -replace github.com/skald-go/skald=FOLDER   # Skald's source, because this build is not released")
	}
	next = append(next, "go mod tidy", "cat README.md        # the first commands")
	err := t.List("wrote", "wrote", names)
	if err == nil {
		err = t.Say("next", next, "\nnow:  "+strings.Join(next, "\n      "))
	}
	return err
}
