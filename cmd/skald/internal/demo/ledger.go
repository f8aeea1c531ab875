package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/examples/shop/table"
)

// entry is the record of a run in demo_run, a table in Order's database.
type entry struct {
	prefix   string
	seed     uint64
	orders   int
	sabotage string
	style    string
	cluster  string            // the ID of the broker
	topics   map[string]string // the IDs of created topics; empty until then
	report   *finished         // nil until the run is finished
}

// isOver returns true if the run has its report, and no order was placed after the report.
func (e *entry) isOver() bool { return e.report != nil && !e.report.Open }

// onBus returns the record of the run's topics.
func (e *entry) onBus() busRun {
	return busRun{Prefix: e.prefix, Style: styleOf(e.style), Cluster: e.cluster, Topics: e.topics}
}

// ledger stores the entry of a run. A run creates the ledger before all other objects. A later process uses
// the entry to recognize the objects of the run.
type ledger struct {
	db    table.DB
	begin func(ctx context.Context, do func(table.DB) error) error
	sql   map[string]string
}

// find returns the entry of the run that created these databases, or nil if there is none.
func (l *ledger) find(ctx context.Context) (*entry, error) {
	var e entry
	var seed, topics, report string
	err := l.db.QueryRow(ctx, l.sql["Claimed"]).Scan(&e.prefix, &seed, &e.orders, &e.sabotage, &e.style,
		&e.cluster, &topics, &report)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		e.seed, err = strconv.ParseUint(seed, 10, 64)
	}
	if err == nil {
		err = json.Unmarshal([]byte(topics), &e.topics)
	}
	if err == nil && report != "" {
		err = json.Unmarshal([]byte(report), &e.report)
	}
	if err != nil {
		return nil, fmt.Errorf("read demo_run: %w", err)
	}
	return &e, nil
}

// claim creates the table with the entry e in one transaction. The transaction begins with the statement,
// unless it is "".
func (l *ledger) claim(ctx context.Context, e *entry, statement string) error {
	err := l.begin(ctx, func(db table.DB) error {
		for _, q := range []string{statement, l.sql["Make"]} {
			if q == "" {
				continue
			}
			if _, err := db.Exec(ctx, q); err != nil {
				return err
			}
		}
		_, err := db.Exec(ctx, l.sql["Claim"], e.prefix, strconv.FormatUint(e.seed, 10), e.orders, e.sabotage,
			e.style, e.cluster, table.Time(time.Now()))
		return err
	})
	if err != nil {
		return fmt.Errorf("create demo_run: %w", err)
	}
	return nil
}

// noteTopics records the IDs of the created topics.
func (l *ledger) noteTopics(ctx context.Context, e *entry) error {
	ids, err := json.Marshal(e.topics)
	if err == nil {
		_, err = l.db.Exec(ctx, l.sql["Topics"], string(ids))
	}
	if err != nil {
		return fmt.Errorf("record topics in demo_run: %w", err)
	}
	return nil
}

// finish records the report.
func (l *ledger) finish(ctx context.Context, f finished) error {
	text, err := json.Marshal(f)
	if err == nil {
		_, err = l.db.Exec(ctx, l.sql["Finish"], string(text))
	}
	if err != nil {
		return fmt.Errorf("record the report in demo_run: %w", err)
	}
	return nil
}

// agree sets the options that were not given to those of the entry. It returns an error if a given option
// differs from the entry.
func (e *entry) agree(o *Options) error {
	var other []string
	settle := func(flag string, same bool, was string, take func()) {
		switch {
		case same:
		case o.Given[flag]:
			other = append(other, fmt.Sprintf("--%s %s", flag, was))
		default:
			take()
		}
	}
	settle("seed", e.seed == o.Seed, strconv.FormatUint(e.seed, 10), func() { o.Seed = e.seed })
	settle("orders", e.orders == o.Orders, strconv.Itoa(e.orders), func() { o.Orders = e.orders })
	settle("prefix", e.prefix == o.Prefix, e.prefix, func() { o.Prefix = e.prefix })
	settle("sabotage", e.sabotage == o.Sabotage, e.sabotage, func() { o.Sabotage = e.sabotage })
	settle("style", e.style == o.Style, e.style, func() { o.Style = e.style })
	if len(other) == 0 {
		return nil
	}
	return &cli.ForeignError{
		What:   "there is a run of the demo already, with " + strings.Join(other, " "),
		Remedy: "omit these flags to continue it, or choose another --dir or --prefix",
	}
}
