package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// tenantOf returns the setting for the policy of {account}, from a header of the message.
func tenantOf(m skald.Message) []store.Setting {
	for _, h := range m.Headers {
		if h.Name == "tenant" {
			return []store.Setting{{Name: "app.tenant", Value: string(h.Value)}}
		}
	}
	return nil
}

// tenants creates a table whose rows only their tenant can read and write, not even its owner.
func tenants(t *testing.T) (b *bed, app *pgxpool.Pool) {
	b = newBed(t)
	name := b.role(t, "app")
	quoted := pgx.Identifier{name}.Sanitize()
	b.exec(t, `CREATE TABLE {account} (tenant text NOT NULL, seen bigint NOT NULL, said text NOT NULL)`)
	b.exec(t, `ALTER TABLE {account} ENABLE ROW LEVEL SECURITY`)
	b.exec(t, `ALTER TABLE {account} FORCE ROW LEVEL SECURITY`)
	b.exec(t, `CREATE POLICY tenant ON {account} USING (tenant = current_setting('app.tenant'))`)
	b.exec(t, `GRANT USAGE, CREATE ON SCHEMA `+strings.TrimSuffix(b.prefix(), ".")+` TO `+quoted)
	b.exec(t, `ALTER TABLE {account} OWNER TO `+quoted)
	return b, b.as(t, name, "tenants")
}

const note = `INSERT INTO {account} SELECT $1, count(*), $2 FROM {account}`

// TestTenantOfTheMessage checks that each handler reads and writes only the rows of the tenant of its
// message. A message without a tenant, or that writes rows of another one, fails alone: other messages and
// the consumer continue.
func TestTenantOfTheMessage(t *testing.T) {
	t.Parallel()
	b, pool := tenants(t)
	s := New(pool, &Options{Schema: b.schema})
	serveTenants(t, b, s, func(ctx context.Context, tx pgx.Tx, tenant, said string) error {
		_, err := tx.Exec(ctx, b.q(note), tenant, said)
		return err
	})
}

func TestTenantOfTheMessageSQL(t *testing.T) {
	t.Parallel()
	b, pool := tenants(t)
	s := NewSQL(stdlib.OpenDBFromPool(pool), &Options{Schema: b.schema})
	serveTenants(t, b, s, func(ctx context.Context, tx *sql.Tx, tenant, said string) error {
		_, err := tx.ExecContext(ctx, b.q(note), tenant, said)
		return err
	})
}

func serveTenants[TTx any](t *testing.T, b *bed, s store.Driver[TTx],
	write func(ctx context.Context, tx TTx, tenant, said string) error) {
	ctx := t.Context()
	bus := membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, "orders"); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(s, bus, "accounts", &inbox.Options{Transaction: inbox.Transaction{Settings: tenantOf}})
	in.Handle("orders", "order.placed", func(ctx context.Context, tx TTx, m skald.Message) error {
		if err := s.Write(ctx, tx, store.Effect{Rows: rowsOf(aMessage("said"))}); err != nil {
			return err
		}
		tenant, said, _ := strings.Cut(string(m.Data), " ")
		return write(ctx, tx, tenant, said)
	})
	var all []skald.Message
	say := func(tenant, data string) {
		m := aMessage(fmt.Sprint("key ", len(all)))
		m.Source, m.Data = "/orders", []byte(data)
		if tenant != "" {
			m.Headers = []skald.Header{{Name: "tenant", Value: []byte(tenant)}}
		}
		all = append(all, m)
	}
	say("", "a none")    // without a tenant the policy has no value
	say("b", "a stolen") // a row of another tenant
	say("a\x00", "a no text")
	for range 3 {
		say("a", "a mine")
		say("b", "b mine")
	}
	if err := bus.Publish(ctx, all).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for idle := 0; idle < 3; idle++ {
		busy, err := in.Step(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if busy {
			idle = 0
		}
	}
	got := one[[]string](t, b, `SELECT array_agg(tenant || ' ' || seen || ' ' || said) FROM {account}`)
	slices.Sort(got)
	if want := []string{"a 0 mine", "a 1 mine", "a 2 mine", "b 0 mine", "b 1 mine",
		"b 2 mine"}; !slices.Equal(got, want) {
		t.Errorf("accounts %q, want %q", got, want)
	}
	if c := b.Count(t); c.Marks != 6 || c.Rows != 6 {
		t.Errorf("of six effects: %+v", c)
	}
	h := in.Health()
	if !h.Live || len(h.Stuck) != 3 {
		t.Errorf("three messages fail, the consumer lives: %+v", h)
	}
	if err := in.Close(ctx); err != nil {
		t.Error(err)
	}
}
