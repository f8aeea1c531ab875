package mail

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// Box stores mails in its own database. It does not use Skald.
type Box[TTx any] struct {
	home table.Home[TTx]
	sql  map[string]string
}

// NewBox returns the mailbox at home.
func NewBox[TTx any](home table.Home[TTx]) (*Box[TTx], error) {
	sql, err := table.Statements(queries)
	return &Box[TTx]{home, sql}, err
}

// Prepare creates the table.
func (b *Box[TTx]) Prepare(ctx context.Context) error {
	if err := b.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create the mailbox: %w", err)
	}
	return nil
}

// Take stores m. A repeated mail is not stored again. It returns ErrOther if the Message-ID belongs to
// another mail.
func (b *Box[TTx]) Take(ctx context.Context, m Mail) error {
	return b.home.Begin(ctx, func(tx TTx) error {
		n, err := b.home.DB(tx).Exec(ctx, b.sql["Take"], m.ID, m.To, m.Subject, table.Time(time.Now()))
		switch {
		case err != nil:
			return fmt.Errorf("store mail %s: %w", m.ID, err)
		case n == 0:
			return ErrOther
		}
		return nil
	})
}
