package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store/pgstore"
)

// Pause, resume and skip work for a consumer of a shared queue, which has no checkpoint. A consumer that
// never ran is refused.
func TestOperatorsPauseAndResumeASharedQueue(t *testing.T) {
	for name, of := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for the 5 s in which a consumer reads its orders
			s := newSharing(t, of)
			schema := strings.SplitN(s.topic, ".", 2)[0]
			db := pgstore.New(s.pool, &pgstore.Options{Schema: schema})
			note := operate.Order{Author: "ann", Reason: "the warehouse moves"}
			var unknown *operate.UnknownConsumerError
			if err := operate.PauseInbox(t.Context(), db, s.group, note); !errors.As(err, &unknown) {
				t.Fatalf("a consumer that never ran: %v", err)
			}
			in := inbox.New(db, s.open(&line{}), s.group,
				&inbox.Options{Logger: slog.New(slog.DiscardHandler)})
			in.Handle(s.topic, "plain", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
				_, err := tx.Exec(ctx, "INSERT INTO "+schema+".effect VALUES ($1, 'me')", m.ID)
				return err
			})
			effects := func() (n int) {
				fatal(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".effect").Scan(&n))
				return n
			}
			stop := run(t, in)
			s.publish("m-1", "plain")
			until(t, "the first message", func() bool { return effects() == 1 })
			fatal(t, operate.PauseInbox(t.Context(), db, s.group, note))
			until(t, "the pause", func() bool { return in.Health().Stopped != "" })
			s.publish("m-2", "plain")
			until(t, "the second message", func() bool { return in.Health().Received == 2 })
			fatal(t, operate.SkipInbox(t.Context(), db, s.group, fmt.Sprintf("%012x", 7), note))
			if n := effects(); n != 1 {
				t.Errorf("%d effects in a pause", n)
			}
			fatal(t, operate.ResumeInbox(t.Context(), db, s.group, note))
			untilFor(t, time.Minute, "the second effect", func() bool { return effects() == 2 })
			fatal(t, stop())
		})
	}
}
