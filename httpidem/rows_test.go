package httpidem_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/httpidem"
)

// A handler that does not close the rows of a query has a bug, which is no outage. The log describes the fix,
// and no row is stored.
func TestRowsLeftOpen(t *testing.T) {
	g := onPgx(t)
	var log bytes.Buffer
	o := &httpidem.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	closed := false
	h := httpidem.Handle(g.db, "orders", httpidem.OneTenant, o,
		func(ctx context.Context, tx pgx.Tx, _ httpidem.Request[[]byte]) (httpidem.Reply[string], error) {
			if err := g.note(tx, "placed", "tea"); err != nil {
				return httpidem.Reply[string]{}, err
			}
			rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
			if err == nil && closed {
				rows.Close()
			}
			return httpidem.OK("done"), err
		})
	p := post{key: "k", body: "tea"}
	for range 6 { // more than the pool has connections
		answers(t, p.to(h), 500, "the service failed")
	}
	if !strings.Contains(log.String(), "close them (rows.Close)") {
		t.Errorf("the log says %s", &log)
	}
	closed = true
	answers(t, p.to(h), 200, "done")
	g.wantList(t, "placed", "tea")
}
