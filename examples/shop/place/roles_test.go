package place_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// roleShop is six services, each of which handles as an app and relays as a relay, with the rights of these
// roles and no more. Rows of the services' own tables are there only for the tenant that a message names.
type roleShop struct {
	*shop
	at    string
	admin *pgxpool.Pool
	bus   broker.Broker
}

func newRoleShop(t *testing.T) *roleShop {
	t.Helper()
	s := &roleShop{shop: &shop{t: t}, at: database(t)}
	pool, err := pgxpool.New(t.Context(), s.at)
	if err != nil {
		t.Fatal(err)
	}
	s.admin = pool
	t.Cleanup(pool.Close)
	if s.place, err = place.Open(s.at, "test"); err != nil {
		t.Fatal(err)
	}
	bus, err := place.OpenBus("mem:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = bus.Close(), s.place.Close() })
	client, err := bus.Connect("all")
	if err != nil {
		t.Fatal(err)
	}
	s.bus = client
	if err := place.MakeTopics(t.Context(), client, event.New("test"), 0); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *roleShop) exec(sql string) {
	s.t.Helper()
	if _, err := s.admin.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// login is a pool of a user who has the rights of a role in one schema.
func (s *roleShop) login(role, schema string) (name string, pool *pgxpool.Pool) {
	s.t.Helper()
	name = "shop_" + role + "_" + strings.ToLower(rand.Text()[:10])
	text, err := pgstore.Grants(role, &pgstore.GrantOptions{Schema: schema, Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(text)
	s.exec("ALTER ROLE " + name + " LOGIN")
	s.t.Cleanup(func() { s.exec("DROP OWNED BY " + name); s.exec("DROP ROLE " + name) })
	u, err := url.Parse(s.at)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.User(name)
	if pool, err = pgxpool.New(s.t.Context(), u.String()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	return name, pool
}

// owned gives name the service's own tables, whose rows are there for the tenant "shop" alone. The gateway's
// are somebody else's: it is asked outside of any transaction, where no message names a tenant.
func (s *roleShop) owned(name, schema string, forced bool) {
	s.t.Helper()
	rows, err := s.admin.Query(s.t.Context(), `SELECT relname::text FROM pg_class
		WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND relname !~ '^skald'`, schema)
	if err != nil {
		s.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		s.t.Fatal(tables, err)
	}
	for _, one := range tables {
		bank := strings.HasPrefix(one, "gateway_")
		one = pgx.Identifier{schema, one}.Sanitize()
		s.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON " + one + " TO " + name)
		if forced && !bank {
			s.exec("ALTER TABLE " + one + " ENABLE ROW LEVEL SECURITY; ALTER TABLE " + one +
				" FORCE ROW LEVEL SECURITY;" +
				"CREATE POLICY tenant ON " + one + " USING (current_setting('app.tenant', true) = 'shop')")
		}
	}
}

func (s *roleShop) add(name string) {
	s.t.Helper()
	ctx, schema := s.t.Context(), "test_"+name
	if err := s.place.Prepare(ctx, name); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.place.Service(ctx, name, s.bus, &service.Options{Prefix: "test"}); err != nil {
		// create the tables
		s.t.Fatal(err)
	}
	user, app := s.login("app", schema)
	_, carrier := s.login("relay", schema)
	// Order is also called over HTTP, without a message that names a tenant.
	s.owned(user, schema, name != "order")
	o := &service.Options{Prefix: "test"}
	o.Inbox.Transaction.Settings = func(m skald.Message) []store.Setting {
		if strings.HasPrefix(m.Source, "/") && strings.Contains(m.Topic, "test.") {
			return []store.Setting{{Name: "app.tenant", Value: "shop"}}
		}
		return nil
	}
	one, err := service.New(name, table.Postgres(app, schema,
		pgstore.New(app, &pgstore.Options{Schema: schema})), s.bus, o)
	if err != nil {
		s.t.Fatal(err)
	}
	if h := one.HTTP(); h != nil {
		s.orders = h
	}
	s.steppers = append(s.steppers, relay.New(pgstore.New(carrier, &pgstore.Options{Schema: schema}),
		s.bus, nil))
	for _, part := range one.Steppers() {
		if part != skald.Stepper(one.Relay) { // the role has no rights for it
			s.steppers = append(s.steppers, part)
		}
	}
	var n int
	if name == "inventory" { // the tables of handlers are invisible without a tenant
		if err := app.QueryRow(ctx, "SELECT count(*) FROM "+schema+".stock").Scan(&n); err != nil || n != 0 {
			s.t.Errorf("without a tenant %d rows of stock are seen: %v", n, err)
		}
	}
}

func TestPostgresUnderRoles(t *testing.T) {
	t.Parallel()
	s := newRoleShop(t)
	for _, name := range service.Names() {
		s.add(name)
	}
	s.order(1, 50)
	s.stepUntilQuiet()
	s.allHold()
	s.checkStories()
}
