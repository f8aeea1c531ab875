package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

func stepsCommand(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "steps", Short: "Steps of sagas: what took effect, what is barred, and by what", RunE: func(c *cobra.Command, _ []string) error {
		c.SetOut(c.ErrOrStderr())
		return errors.Join(&place.UsageError{What: "which command of steps?"}, errTold, c.Usage())
	}}
	c.AddCommand(stepsListCommand(out), stepsShowCommand(out))
	return c
}

// stepsWanted say which steps are meant; empty ones do not matter.
type stepsWanted struct {
	schema, consumer, saga, state string
	limit                         int
	asJSON                        bool
}

func (w *stepsWanted) flags(c *cobra.Command) {
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&w.consumer, "consumer", "", "only of this consumer group")
	f.StringVar(&w.saga, "saga", "", "only of this saga")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
}

// stepStates are the words of the view.
func stepStates() []string {
	return []string{"done", "calling", "parked", "dead", "dropped", "rejected", "barred", "undone"}
}

func stepsListCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{}
	c := &cobra.Command{Use: "list", Short: "How steps stand", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if w.state != "" && !slices.Contains(stepStates(), w.state) {
			return &place.UsageError{What: fmt.Sprintf("--state is one of %s, not %q", strings.Join(stepStates(), ", "), w.state)}
		}
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		n := 0
		err := w.each(c, func(s stepJSON) error {
			if w.asJSON {
				return json.NewEncoder(out).Encode(s)
			}
			if n++; n == 1 {
				fmt.Fprintln(t, "consumer\tsaga\tstep\tstate\tsince\ttaken by\tundone or barred by")
			}
			_, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Consumer, s.Saga, s.name(), s.State, s.ChangedAt, s.ID, s.ByID)
			return err
		})
		return errors.Join(err, t.Flush())
	}}
	w.flags(c)
	c.Flags().StringVar(&w.state, "state", "", "only those that stand so: "+strings.Join(stepStates(), ", "))
	c.Flags().IntVar(&w.limit, "limit", 100, "at most so many")
	return c
}

func stepsShowCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{limit: 1000}
	c := &cobra.Command{Use: "show", Short: "All that is known of the steps of a saga", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if w.saga == "" {
			return &place.UsageError{What: "which saga? Give --saga"}
		}
		n := 0
		err := w.each(c, func(s stepJSON) error {
			n++
			if w.asJSON {
				return json.NewEncoder(out).Encode(s)
			}
			return s.tell(out)
		})
		if err == nil && n == 0 {
			err = &place.NoneError{What: "nothing is known of any step of saga " + w.saga}
		}
		return err
	}}
	w.flags(c)
	return c
}

// stepJSON is what --json prints of a step: its names are stable. Result and outcome are base64.
type stepJSON struct {
	Consumer   string `json:"consumer"`
	Saga       string `json:"saga"`
	Step       string `json:"step"`
	Occurrence string `json:"occurrence"`
	State      string `json:"state"`
	Source     string `json:"source,omitempty"` // of the message that took it, or waits to
	ID         string `json:"id,omitempty"`
	BySource   string `json:"by_source,omitempty"` // of the message that undid or barred it
	ByID       string `json:"by_id,omitempty"`
	Code       int64  `json:"code,omitempty"`
	Result     []byte `json:"result,omitempty"`
	OutsideKey string `json:"outside_key,omitempty"`
	Outcome    []byte `json:"outcome,omitempty"`
	Begun      string `json:"begun,omitempty"`
	At         string `json:"at"`
	ChangedAt  string `json:"changed_at"`
}

// name is of the step, with its occurrence.
func (s *stepJSON) name() string {
	if s.Occurrence == "" {
		return s.Step
	}
	return s.Step + "/" + s.Occurrence
}

func (s *stepJSON) tell(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what, is string) {
		if is != "" {
			fmt.Fprintf(t, "  %s\t%s\n", what, is)
		}
	}
	fmt.Fprintf(t, "%s of %s at %s: %s\n", s.name(), s.Saga, s.Consumer, s.State)
	line("taken by", s.message(s.Source, s.ID))
	line("undone or barred by", s.message(s.BySource, s.ByID))
	if s.Code != 0 || len(s.Result) > 0 {
		line("answered", fmt.Sprintf("%d %s", s.Code, s.Result))
	}
	line("called outside as", s.OutsideKey)
	line("outcome", string(s.Outcome))
	line("saga begun", s.Begun)
	line("first heard of", s.At)
	line("so since", s.ChangedAt)
	return t.Flush()
}

func (s *stepJSON) message(source, id string) string {
	if id == "" {
		return ""
	}
	return id + " of " + source
}

const stepsQuery = `SELECT consumer, saga, step, occurrence, state, COALESCE(source, ''), COALESCE(id, ''), COALESCE(by_source, ''), COALESCE(by_id, ''),
	COALESCE(code, 0), result, COALESCE(outside_key, ''), outcome, COALESCE(CAST(begun AS TEXT), ''), CAST(at AS TEXT), CAST(changed_at AS TEXT)
FROM /*schema*/skald_steps
WHERE (CAST($1 AS TEXT) = '' OR consumer = $1) AND (CAST($2 AS TEXT) = '' OR saga = $2) AND (CAST($3 AS TEXT) = '' OR state = $3)
ORDER BY consumer, saga, step, occurrence LIMIT CAST($4 AS BIGINT)`

// each reads the steps that are meant.
func (w *stepsWanted) each(c *cobra.Command, f func(stepJSON) error) error {
	db, err := openDatabase(from(c, "store", "SKALD_STORE"), w.schema, "")
	if err != nil {
		return err
	}
	ctx := c.Context()
	view, end, err := db.views(ctx)
	if err != nil {
		return err
	}
	defer end()
	return table.All(ctx, view, stepsQuery, []any{w.consumer, w.saga, w.state, int64(w.limit)}, func(row table.Row) error {
		var s stepJSON
		if err := row.Scan(&s.Consumer, &s.Saga, &s.Step, &s.Occurrence, &s.State, &s.Source, &s.ID, &s.BySource, &s.ByID, &s.Code, &s.Result,
			&s.OutsideKey, &s.Outcome, &s.Begun, &s.At, &s.ChangedAt); err != nil {
			return err
		}
		return f(s)
	})
}

// views reads the views.
func (f file) views(context.Context) (table.DB, func(), error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: there is no file %s: run: skald migrate --store sqlite:%s", place.ErrNone, f.path, f.path)
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	return table.SQL(db), func() { _ = db.Close() }, nil
}

func (s server) views(ctx context.Context) (table.DB, func(), error) {
	cfg := s.cfg.Copy()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return table.Postgres(pool, s.schema, nil).Read, pool.Close, nil
}
