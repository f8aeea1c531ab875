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

const initAbout = `Writes a service for PostgreSQL (pgx) and Kafka into a folder that is new or empty: one table, one endpoint that takes an
Idempotency-Key, one handler, one test. With --saga it writes one that starts an orchestrated saga for each request, without Kafka, and a
test that runs the saga with every fault at every point. It compiles as it is; its README says what to do first.`

func initCommand(out io.Writer) *cobra.Command {
	var module string
	var withSaga bool
	t := &cli.Tidings{Out: out}
	c := &cobra.Command{Use: "init DIR", Short: "Write a service to begin with", Long: initAbout,
		Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&module, "module", "", "the path of its module (default: the folder's name)")
	c.Flags().BoolVar(&withSaga, "saga", false, "one that runs an orchestrated saga")
	t.Flag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		dir := args[0]
		if module == "" {
			full, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			module = strings.ToLower(filepath.Base(full))
		}
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`).MatchString(module) {
			return &cli.UsageError{What: fmt.Sprintf(
				"%q is no path of a module: give one as in --module example.com/orders", module)}
		}
		s := cli.Of(module)
		s.Saga = withSaga
		names, err := s.Write(dir)
		var full *cli.NotEmptyError
		if errors.As(err, &full) {
			return &cli.UsageError{What: full.Error()}
		}
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
		return t.End(tellInit(t, s, dir, names))
	}
	return c
}

func tellInit(t *cli.Tidings, s cli.Service, dir string, names []string) error {
	slices.Sort(names)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	next := []string{"cd " + shortlog.Shell(dir)}
	if strings.HasPrefix(s.Skald, cli.Unreleased) { // or v0.0.0-…, which a clone has and no proxy
		next = append(next,
			"go mod edit -replace github.com/skald-go/skald=FOLDER   # Skald's source: no release is this build")
	}
	next = append(next, "go mod tidy", "go test ./...        # with DATABASE_URL, on PostgreSQL",
		"cat README.md")
	err := t.List("wrote", "wrote", names)
	if err == nil {
		err = t.Say("next", next, "\nnow:  "+strings.Join(next, "\n      "))
	}
	return err
}
