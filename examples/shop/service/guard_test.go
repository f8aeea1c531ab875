package service_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
)

// naturalKey is a second guard that a team may add to Payment's database: an order is charged once and
// refunded once.
const naturalKey = "CREATE UNIQUE INDEX once ON transfers (order_id, kind) WHERE order_id <> ''"

const (
	charges = "SELECT COUNT(*) FROM transfers WHERE kind = 'charge'"
	refunds = "SELECT COUNT(*) FROM transfers WHERE kind = 'refund'"
	moves   = "SELECT COUNT(*) FROM gateway_moves WHERE kind = 'charge'"
	left    = "SELECT COUNT(*) FROM skald_parked"
	dead    = "SELECT COUNT(*) FROM skald_dead WHERE kind = 'permanent' AND type = 'order.placed'"
)

func (r *rig) exec(query string) {
	r.t.Helper()
	if _, err := r.db.ExecContext(r.t.Context(), query); err != nil {
		r.t.Fatal(err)
	}
}

// An order is placed, its message arrives again after its mark was lost, and then its parcel fails. The
// cases show what happens to the money if the step is lost too, without and with a natural key as second
// guard, and for each classification of its violation. With the mark, or with the step alone, the guard
// never acts.
func TestNaturalKeyAsSecondGuard(t *testing.T) {
	const taken, refunded = "payment.taken o1", "payment.refunded o1"
	mark, both := []string{"skald_mark"}, []string{"skald_mark", "skald_step"}
	permanent := inbox.Options{Retry: inbox.Retry{Classify: failure.ViolationIs(failure.Permanent)}}
	free := inbox.Options{Retry: inbox.Retry{Classify: failure.ViolationIs(failure.Permanent)},
		Dead: inbox.Dead{FreeKey: true}}
	for name, c := range map[string]struct {
		gone                   []string // tables that are emptied
		guarded                bool
		inbox                  inbox.Options
		charges, refunds, left int64
		sent                   []string
	}{
		"the mark": {nil, true, inbox.Options{}, 1, 1, 0, []string{taken, refunded}},
		"the step": {mark, true, inbox.Options{}, 1, 1, 0, []string{taken, refunded}},
		"nothing":  {both, false, inbox.Options{}, 2, 1, 0, []string{taken, taken, refunded}},
		// the repeat, and the refund after it
		"the key, by default transient": {both, true, inbox.Options{}, 1, 0, 2, []string{taken}},
		// the refund, after the dead letter
		"the key, permanent": {both, true, permanent, 1, 0, 2, []string{taken}},
		// the refund, until the result of the charge is recorded
		"the key, permanent, keys freed": {both, true, free, 1, 0, 2, []string{taken}},
	} {
		t.Run(name, func(t *testing.T) {
			db, at := home(t, "payment")
			r := rigAt(t, "payment", db, at, &service.Options{Inbox: c.inbox})
			if c.guarded {
				r.exec(naturalKey)
			}
			o := tea("o1", "ada", 1)
			r.deliver(1, r.ev.OrderPlaced.New("o1", o))
			for _, table := range c.gone {
				r.exec("DELETE FROM " + table)
			}
			r.n-- // the same message again
			r.deliver(1, r.ev.OrderPlaced.New("o1", o))
			r.deliver(1, r.ev.ParcelFailed.New("o1", about(o)))
			r.want(1, moves) // the gateway recognizes the key of the order in each case
			r.want(c.charges, charges)
			r.want(c.refunds, refunds)
			r.want(c.left, left)
			r.wantSent(c.sent...)
		})
	}
}

// echo is a broker that delivers everything twice.
type echo struct{ broker.Broker }

func (e echo) Publish(ctx context.Context, ms []skald.Message, only ...broker.Topics) broker.Pending {
	_ = e.Broker.Publish(ctx, ms, only...).Wait(ctx) // failures are reported by the second call
	return e.Broker.Publish(ctx, ms, only...)
}

// The whole shop without marks and steps, on a broker that delivers everything twice. A natural key in
// Payment's database protects its own rows: no charge and no refund is recorded twice. It prevents no
// second mail and no second parcel. It may cost a customer money: Inventory has none left when it is asked
// again for a last piece, and the key refuses the charge of a change.
func TestNaturalKeyInTheShop(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprint("guarded ", guarded), func(t *testing.T) {
			s := shopOver(t, echo{bus(t)},
				&service.Options{Inbox: inbox.Options{
					Retry: inbox.Retry{Classify: failure.ViolationIs(failure.Permanent)}}},
				sagatest.NoMark[*sql.Tx])
			if guarded {
				if _, err := s.dbs["payment"].ExecContext(t.Context(), naturalKey); err != nil {
					t.Fatal(err)
				}
			}
			s.place(1, 12)
			// On a slow machine relays and consumers retry later, so one idle moment does not mean that all
			// is done.
			deadline, wrong := time.Now().Add(2*time.Minute), []string{"not looked"}
			for len(wrong) > 0 && time.Now().Before(deadline) {
				quiet(t, s.work...)
				wrong = notAsGuarded(s, guarded)
			}
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// notAsGuarded returns the differences from what is expected with or without the natural key.
func notAsGuarded(s *shop, guarded bool) (wrong []string) {
	const twice = "SELECT COUNT(*) FROM (SELECT 1 FROM transfers WHERE order_id <> '' GROUP BY order_id, kind HAVING COUNT(*) > 1) AS t"
	want := map[string]bool{"money_conserved": true, "mailed_once": false, "shipped_once": false}
	if !guarded {
		// with the key these two depend on who gets the last piece, and on what arrives before the repeat
		want["moved_once"], want["charged_once"] = false, false
	}
	found := s.audit(s.t.Context())
	for invariant, ok := range want {
		if found[invariant].OK != ok {
			wrong = append(wrong, fmt.Sprintf("%s: ok %t, want %t: %s", invariant, !ok, ok,
				found[invariant].Detail))
		}
	}
	if n := num(s.t, s.dbs["payment"], twice); (n == 0) != guarded {
		wrong = append(wrong, fmt.Sprintf("%d charges and refunds stand there twice", n))
	}
	if n := num(s.t, s.dbs["payment"], dead); (n > 0) != guarded {
		wrong = append(wrong, fmt.Sprintf("%d dead letters", n))
	}
	return wrong
}
