// Package journal records, in the transaction of each effect, the message that caused it. The auditor
// compares it with the inbox's marks: if the numbers differ, an effect happened twice or never.
package journal

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// Journal has the records of one service.
type Journal[TTx any] struct {
	home table.Home[TTx]
	sql  map[string]string
	now  func() time.Time
}

// New returns the journal of the service at home; now nil means time.Now.
func New[TTx any](home table.Home[TTx], now func() time.Time) (*Journal[TTx], error) {
	sql, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Journal[TTx]{home: home, sql: sql, now: now}, nil
}

// Prepare creates the journal's table.
func (j *Journal[TTx]) Prepare(ctx context.Context) error {
	if err := j.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create the journal: %w", err)
	}
	return nil
}

// Note records that m has its effect in tx.
func (j *Journal[TTx]) Note(ctx context.Context, tx TTx, m skald.Message) error {
	_, err := j.home.DB(tx).Exec(ctx, j.sql["Note"], m.Source, m.ID, m.Type, string(m.Key),
		table.Time(j.now()))
	if err != nil {
		return fmt.Errorf("record %s in the journal: %w", m.Type, err)
	}
	return nil
}

// On registers h for e, and notes each handled message.
func On[TTx, T any](in *inbox.Inbox[TTx], j *Journal[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, m skald.Received[T]) error,
) {
	inbox.On(in, e, func(ctx context.Context, tx TTx, m skald.Received[T]) error {
		if err := j.Note(ctx, tx, m.Message); err != nil {
			return err
		}
		return h(ctx, tx, m)
	})
}
