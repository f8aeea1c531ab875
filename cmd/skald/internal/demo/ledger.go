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

// An entry is what demo_run, a table beside Order's, knows of a run.
type entry struct {
	prefix   string
	seed     uint64
	orders   int
	sabotage string
	style    string
	cluster  string            // the broker's
	topics   map[string]string // the ids of those that the run made; none until then
	report   *finished         // nil until the run is finished
}

// over tells that nothing of the run is under way.
func (e *entry) over() bool { return e.report != nil && !e.report.Open }

// onBus is what a run has at its broker.
func (e *entry) onBus() busRun {
	return busRun{Prefix: e.prefix, Style: styleOf(e.style), Cluster: e.cluster, Topics: e.topics}
}

// A ledger keeps the entry. It is the first thing that a run makes and what tells a run's own objects from
// others.
type ledger struct {
	db    table.DB
	begin func(ctx context.Context, do func(table.DB) error) error
	sql   map[string]string
}

// find is the entry of the run that made these databases; nil, if none did.
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

// claim makes the table, with e in it, in one transaction whose first statement is first, unless that is "".
func (l *ledger) claim(ctx context.Context, e *entry, first string) error {
	err := l.begin(ctx, func(db table.DB) error {
		for _, q := range []string{first, l.sql["Make"]} {
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
		return fmt.Errorf("make demo_run: %w", err)
	}
	return nil
}

// made notes whose topics the run uses.
func (l *ledger) made(ctx context.Context, e *entry) error {
	ids, err := json.Marshal(e.topics)
	if err == nil {
		_, err = l.db.Exec(ctx, l.sql["Topics"], string(ids))
	}
	if err != nil {
		return fmt.Errorf("note topics in demo_run: %w", err)
	}
	return nil
}

// finish notes how the run ended.
func (l *ledger) finish(ctx context.Context, f finished) error {
	text, err := json.Marshal(f)
	if err == nil {
		_, err = l.db.Exec(ctx, l.sql["Finish"], string(text))
	}
	if err != nil {
		return fmt.Errorf("note the end in demo_run: %w", err)
	}
	return nil
}

// agree takes over from the entry what o was not told, and refuses what it was told otherwise.
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
		Remedy: "leave these flags out to go on with it, or choose another --dir or --prefix",
	}
}
