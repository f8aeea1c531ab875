package verbs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/foreign"
)

// runTables publishes foreign outbox tables.
func runTables(ctx context.Context, db Database, paths []string, connections int, bus,
	metrics string, log *slog.Logger) (err error) {
	var tables []foreign.Table
	for _, path := range paths {
		t, err := readTable(path)
		if err != nil {
			return err
		}
		for _, other := range tables {
			if other.Name == t.Name {
				return &cli.UsageError{What: fmt.Sprintf("--table %s: %s is given twice", path, t.Name)}
			}
		}
		tables = append(tables, t)
	}
	connect, err := dial(bus)
	if err != nil {
		return err
	}
	seen, err := newMonitor(metrics, log)
	if err != nil {
		return err
	}
	defer seen.close(ctx)
	var from *sql.DB
	var done func()
	err = patiently(ctx, log, func() error {
		from, done, err = plain(ctx, db, max(connections, len(tables)+1))
		return err
	})
	if err != nil || from == nil {
		return err
	}
	defer done()
	to, err := connect()
	if err != nil {
		return fmt.Errorf("connect to broker: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	all := make([]skald.Runner, len(tables))
	for i, t := range tables {
		one := foreign.New(from, t, to, &foreign.Options{Logger: log, MeterProvider: seen.meters})
		seen.health.Add(t.Name, one)
		all[i] = one
	}
	return tableState(skald.Run(ctx, all...))
}

func readTable(path string) (t foreign.Table, err error) {
	file, err := os.Open(path)
	if err != nil {
		return t,
			&cli.NoneError{What: fmt.Sprintf("--table: %v: skald adopt outbox --print writes such a file",
				err)}
	}
	defer file.Close()
	if t, err = foreign.Read(file); err != nil {
		return t, &cli.UsageError{What: fmt.Sprintf("--table %s: %v", path, err)}
	}
	return t, nil
}

// tableState converts a *foreign.TableError, which reports that a column map does not match its table, to a
// *cli.ForeignError. So the exit code is that of a wrong state.
func tableState(err error) error {
	var wrong *foreign.TableError
	if errors.As(err, &wrong) {
		return &cli.ForeignError{What: "the table " + wrong.Table + ": " + wrong.What, Remedy: wrong.Remedy}
	}
	return err
}
