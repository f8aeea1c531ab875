package gateway

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// Options of a Ledger. The zero value works.
type Options struct {
	Memory time.Duration // how long a key is remembered. Default 24 h
	// Funds has customers and their initial cents, for customers without an account. Default none.
	Funds map[string]int64
	Now   func() time.Time // default time.Now
	NewID func() string    // for moves; default: 26 random letters and digits
}

// Ledger is a Gateway with its own database. It does not use Skald.
type Ledger[TTx any] struct {
	home table.Home[TTx]
	sql  map[string]string
	o    Options
}

// NewLedger returns the ledger at home.
func NewLedger[TTx any](home table.Home[TTx], o *Options) (*Ledger[TTx], error) {
	l := &Ledger[TTx]{home: home}
	if o != nil {
		l.o = *o
	}
	if l.o.Memory == 0 {
		l.o.Memory = 24 * time.Hour
	}
	if l.o.Now == nil {
		l.o.Now = time.Now
	}
	if l.o.NewID == nil {
		l.o.NewID = rand.Text
	}
	var err error
	l.sql, err = table.Statements(queries)
	return l, err
}

// Prepare creates the tables and the initial balances.
func (l *Ledger[TTx]) Prepare(ctx context.Context) error {
	if err := l.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create the gateway's tables: %w", err)
	}
	return l.begin(ctx, func(db table.DB) error {
		for _, customer := range slices.Sorted(maps.Keys(l.o.Funds)) {
			if _, err := db.Exec(ctx, l.sql["Fund"], customer, l.o.Funds[customer]); err != nil {
				return fmt.Errorf("fund %s: %w", customer, err)
			}
		}
		return nil
	})
}

func (l *Ledger[TTx]) begin(ctx context.Context, do func(db table.DB) error) error {
	return l.home.Begin(ctx, func(tx TTx) error { return do(l.home.DB(tx)) })
}

// Charge takes money from a customer.
func (l *Ledger[TTx]) Charge(ctx context.Context, key string, m Move) (Receipt, error) {
	return l.move(ctx, Receipt{Kind: Charge, Key: key, Move: m}, "")
}

// Refund gives money to a customer.
func (l *Ledger[TTx]) Refund(ctx context.Context, key string, m Move) (Receipt, error) {
	return l.move(ctx, Receipt{Kind: Refund, Key: key, Move: m}, "")
}

// move moves money, or refuses with why if it is not empty. It does so once for each remembered key.
func (l *Ledger[TTx]) move(ctx context.Context, r Receipt, why string) (out Receipt, err error) {
	if err := Check(r.Key, r.Move); err != nil {
		return r, err
	}
	err = l.begin(ctx, func(db table.DB) error {
		known, err := l.remember(ctx, db, r.Key, request(r))
		if err != nil {
			return err
		}
		if known != nil {
			out, why, err = l.recalled(ctx, db, r, known)
			return err
		}
		if why == "" {
			out, why, err = l.carry(ctx, db, r)
		}
		if err != nil {
			return err
		}
		if _, err := db.Exec(ctx, l.sql["Answer"], r.Key, out.ID, why); err != nil {
			return fmt.Errorf("store the answer to %s: %w", r.Key, err)
		}
		return nil
	})
	if err == nil && why != "" {
		err = &RefusedError{why}
	}
	return out, err
}

func request(r Receipt) string {
	return fmt.Sprintf("%s %d %q %q", r.Kind, r.Cents, r.Customer, r.Order)
}

// memory is the stored state of a key.
type memory struct{ request, move, refused string }

// remember stores a key. It returns the existing state if the key is stored already.
func (l *Ledger[TTx]) remember(ctx context.Context, db table.DB, key, request string) (*memory, error) {
	now := l.o.Now()
	if _, err := db.Exec(ctx, l.sql["Expire"], key, table.Time(now)); err != nil {
		return nil, fmt.Errorf("delete the expired key %s: %w", key, err)
	}
	n, err := db.Exec(ctx, l.sql["Remember"], key, request, table.Time(now.Add(l.o.Memory)))
	if err != nil || n > 0 {
		return nil, err
	}
	var m memory
	if err := db.QueryRow(ctx, l.sql["Recall"], key).Scan(&m.request, &m.move, &m.refused); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", key, err)
	}
	return &m, nil
}

// recalled returns the earlier answer.
func (l *Ledger[TTx]) recalled(ctx context.Context, db table.DB, r Receipt,
	m *memory) (out Receipt, why string, err error) {
	switch {
	case m.request != "" && m.request != request(r):
		return out, "", ErrOther
	case m.refused != "":
		return out, m.refused, nil
	}
	out, found, err := l.find(ctx, db, r.Key)
	if err == nil && !found {
		err = fmt.Errorf("the ledger has no transfer with the key %s", r.Key)
	}
	return out, "", err
}

// carry moves the money.
func (l *Ledger[TTx]) carry(ctx context.Context, db table.DB,
	r Receipt) (out Receipt, why string, err error) {
	act := "Give"
	if r.Kind == Charge {
		act = "Take"
	}
	switch n, err := db.Exec(ctx, l.sql[act], r.Customer, r.Cents); {
	case err != nil:
		return out, "", fmt.Errorf("%s %s: %w", r.Kind, r.Key, err)
	case n == 0:
		return out, NoMoney, nil
	}
	r.ID = l.o.NewID()
	if _, err := db.Exec(ctx, l.sql["Move"], r.ID, r.Kind, r.Key, r.Customer, r.Order, r.Cents,
		table.Time(l.o.Now())); err != nil {
		return out, "", fmt.Errorf("write %s into the ledger: %w", r.Key, err)
	}
	return r, "", nil
}

// Cancel invalidates a key.
func (l *Ledger[TTx]) Cancel(ctx context.Context, key string) (r Receipt, done bool, err error) {
	err = l.begin(ctx, func(db table.DB) error {
		known, err := l.remember(ctx, db, key, "")
		if err != nil {
			return err
		}
		if r, done, err = l.find(ctx, db, key); err != nil || done || known != nil {
			return err
		}
		_, err = db.Exec(ctx, l.sql["Answer"], key, "", Cancelled)
		return err
	})
	return r, done, err
}

// Find looks a key up in the ledger.
func (l *Ledger[TTx]) Find(ctx context.Context, key string) (r Receipt, found bool, err error) {
	return l.find(ctx, l.home.Read, key)
}

func (l *Ledger[TTx]) find(ctx context.Context, db table.DB, key string) (r Receipt, found bool, err error) {
	err = db.QueryRow(ctx, l.sql["Find"], key).Scan(&r.ID, &r.Kind, &r.Key, &r.Customer, &r.Order, &r.Cents)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, false, nil
	case err != nil:
		return r, false, fmt.Errorf("look up %s: %w", key, err)
	}
	return r, true, nil
}

// Moved is a line of the ledger.
type Moved struct {
	Receipt
	At time.Time
}

// Moves returns all moves of an order, in order.
func (l *Ledger[TTx]) Moves(ctx context.Context, order string) (out []Moved, err error) {
	err = table.All(ctx, l.home.Read, l.sql["Moves"], []any{order}, func(row table.Row) (err error) {
		var m Moved
		var at string
		if err = row.Scan(&m.ID, &m.Kind, &m.Key, &m.Customer, &m.Order, &m.Cents, &at); err == nil {
			m.At, err = time.Parse(time.RFC3339Nano, at)
		}
		out = append(out, m)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up the transfers of %s: %w", order, err)
	}
	return out, nil
}

// decline refuses a charge that is possible, and remembers the refusal.
func (l *Ledger[TTx]) decline(ctx context.Context, key string, m Move) error {
	_, err := l.move(ctx, Receipt{Kind: Charge, Key: key, Move: m}, NoMoney)
	return err
}

// forget makes the gateway forget a key early, after a while.
func (l *Ledger[TTx]) forget(ctx context.Context, key string, after time.Duration) error {
	return l.begin(ctx, func(db table.DB) error {
		_, err := db.Exec(ctx, l.sql["Forget"], key, table.Time(l.o.Now().Add(after)))
		return err
	})
}
