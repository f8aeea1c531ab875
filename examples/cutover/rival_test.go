package cutover

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/pgstore"
)

// A consumer by hand has a message in the middle of its transaction: an inbox that gets the same one waits,
// is not charged for it, and does what is left to do once that transaction has ended, either way.
func TestRivalByHandIsWaitedFor(t *testing.T) {
	for end, kind := range map[string]string{"COMMIT": "old", "ROLLBACK": "new"} {
		t.Run(end, func(t *testing.T) {
			b := newLedger(t)
			b.s.kind = "new"
			pool, err := pgxpool.New(t.Context(), b.s.database)
			must(t, err)
			defer pool.Close()
			bus := membroker.New(nil)
			must(t, bus.MakeTopics(t.Context(), 1, "moves"))
			in := inbox.New(pgstore.New(pool, nil), bus, "bank",
				&inbox.Options{Timeouts: inbox.Timeouts{Wait: 100 * time.Millisecond},
					Retry:  inbox.Retry{InitialInterval: time.Millisecond},
					Logger: slog.New(slog.DiscardHandler)})
			in.LegacyDedup(processed)
			in.Handle("moves", "moved", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
				_, err := tx.Exec(ctx, `INSERT INTO effect (message_id, kind) VALUES ($1, 'new')`, m.ID)
				return err
			})
			b.do(`BEGIN`)
			b.do(`INSERT INTO processed_messages (message_id) VALUES ('m-1')`)
			b.do(`INSERT INTO effect (message_id, kind) VALUES ('m-1', 'old')`)
			must(t, bus.Publish(t.Context(), []skald.Message{{ID: "m-1", Source: "/bank", Type: "moved",
				Topic: "moves", Data: []byte("{}")}}).Wait(t.Context()))
			for range 5 {
				if _, err := in.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if h := in.Health(); h.Received != 1 || h.Unacknowledged != 1 || h.Failures != 0 {
				t.Errorf("beside an open transaction: %+v", h)
			}
			b.do(end)
			must(t, sagatest.Drain(t.Context(), in))
			if n := b.count(`SELECT count(*) FROM effect WHERE kind = $1`, kind); n != 1 ||
				b.count(`SELECT count(*) FROM effect`) != 1 {
				t.Errorf("%d effects of %s, %d in all", n, kind, b.count(`SELECT count(*) FROM effect`))
			}
			if n := b.count(
				`SELECT count(*) FROM skald_keys WHERE key = 'm-1' AND status = 'done'`); n != 1 ||
				in.Health().Failures != 0 {
				t.Errorf("%d marks, %+v", n, in.Health())
			}
		})
	}
}
