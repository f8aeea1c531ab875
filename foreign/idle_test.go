package foreign_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/pgbed"
)

// A relay that is paused between two round trips does not keep the table's locks until it wakes. Its driver
// sends BEGIN by itself, after which the transaction holds nothing.
func TestNoTransactionIsIdleForever(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	b.do(`INSERT INTO outbox (key, body) VALUES ('k', '1'), ('k', '2')`)
	p := pgbed.NewIdleProxy(t, need.Postgres(t))
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	at.Host = p.Listener.Addr().String()
	direct := b.db
	if b.db, err = sql.Open("pgx", at.String()); err != nil {
		t.Fatal(err)
	}
	r := b.relay(b.table(countedMap), b.bus)
	b.quiet(r)
	b.expect("orders k 1, orders k 2")
	after, asked := p.Unbounded()
	for _, text := range after {
		// to prepare the statement that sets the bound locks no table
		if text != "begin" && !strings.HasPrefix(text, "prepare: SELECT set_config(") {
			t.Errorf("a relay that is paused after %q keeps its transaction forever", text)
		}
	}
	if asked == 0 {
		t.Error("the proxy has asked nothing")
	}
	_ = b.db.Close()
	b.db = direct
}
