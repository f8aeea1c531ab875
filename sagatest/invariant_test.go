package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func (m *model) invariants() {
	for name, check := range map[string]func() error{
		"money_conserved":    m.moneyConserved,
		"charged_once":       m.chargedOnce,
		"stock_conserved":    m.stockConserved,
		"orders_ended":       m.ordersEnded,
		"delivered_to_all":   m.deliveredToAll,
		"nothing_made_up":    m.nothingMadeUp,
		"effect_once":        m.effectOnce,
		"order_per_key":      m.orderPerKey,
		"rejected_rightly":   m.rejectedRightly,
		"nothing_left_aside": m.nothingAside,
	} {
		if name != m.wire.unheld {
			m.w.Finally(name, check)
		}
	}
	if m.anew == 0 { // if a topic is recreated, they go back
		m.w.Always("cursors_forward", m.cursorsForward)
	}
}

func (m *model) user(service, key string) int {
	n, _ := strconv.Atoi(m.dbs[service].User()[key])
	return n
}

func (m *model) state(o order) string { return m.dbs["order"].User()["order/"+o.ID] }

func (m *model) moneyConserved() error {
	total, want := m.user("payment", "till"), 0
	seen := map[string]bool{}
	for key, text := range m.dbs["payment"].User() {
		if c, ok := strings.CutPrefix(key, "balance/"); ok {
			n, _ := strconv.Atoi(text)
			total, seen[c] = total+n, true
		}
	}
	want = len(seen) * initialBalance
	for _, d := range m.load.deposits {
		want += d.Cents
	}
	if total != want {
		return fmt.Errorf("%d cents instead of %d", total, want)
	}
	return nil
}

func (m *model) chargedOnce() (err error) {
	for _, o := range m.load.orders {
		want := 0
		if m.state(o) == "confirmed" {
			want = o.Cents
		}
		if got := m.user("payment", "paid/"+o.ID); got != want {
			err = errors.Join(err, fmt.Errorf("order %s is %s and has paid %d, not %d", o.ID,
				m.state(o), got, want))
		}
	}
	return err
}

func (m *model) stockConserved() (err error) {
	text, ok := m.dbs["stock"].User()["available"]
	left, _ := strconv.Atoi(text)
	if !ok {
		left = initialStock
	}
	reserved := 0
	for _, o := range m.load.orders {
		got, want := m.user("stock", "reserved/"+o.ID), 0
		if m.state(o) == "confirmed" {
			want = o.Quantity
		}
		if got != want {
			err = errors.Join(err, fmt.Errorf("order %s is %s and has %d reserved, not %d", o.ID,
				m.state(o), got, want))
		}
		reserved += got
	}
	if left < 0 || left+reserved != initialStock {
		err = errors.Join(err, fmt.Errorf("%d left and %d reserved of %d", left, reserved, initialStock))
	}
	return err
}

func (m *model) ordersEnded() (err error) {
	for _, o := range m.load.orders {
		if s := m.state(o); s != "confirmed" && s != "cancelled" {
			err = errors.Join(err, fmt.Errorf("order %s is %q", o.ID, s))
		}
	}
	return err
}

// listeners returns the names of the services that handle a type.
func listeners(typ string) []string {
	switch typ {
	case "order.placed", "stock.short", "stock.stopped", "deposit.made":
		return []string{"payment"}
	case "payment.declined", "payment.barred", "payment.refunded", "stock.reserved":
		return []string{"order"}
	case "payment.taken", "order.cancel_asked":
		return []string{"stock"}
	}
	return nil
}

func (m *model) services() []string { return []string{"order", "payment", "stock"} }

// marks returns the marks of messages, with the messages' own identities.
func (m *model) marks(service string) []memstore.Marked {
	return slices.DeleteFunc(m.dbs[service].Marks(),
		func(k memstore.Marked) bool { return k.Source == "position" })
}

// taken returns the messages that a service has processed. Such a message has an effect, a mark, or an
// emitted message.
func (m *model) taken(service string) map[store.Identity]bool {
	out := map[store.Identity]bool{}
	for _, mark := range m.marks(service) {
		out[mark.Identity] = true
	}
	for key := range m.dbs[service].User() {
		if rest, ok := strings.CutPrefix(key, "effect/"+service+"/"); ok {
			at := strings.LastIndex(rest, "/")
			out[store.Identity{Source: rest[:at], ID: rest[at+1:]}] = true
		}
	}
	return out
}

func (m *model) deliveredToAll() (err error) {
	for _, to := range m.services() {
		taken, answered := m.taken(to), map[string]bool{}
		for _, r := range m.rows(to) {
			answered[r.CausationID] = true
		}
		for _, from := range m.services() {
			for _, r := range m.rows(from) {
				id := store.Identity{Source: r.Source, ID: r.ID}
				if slices.Contains(listeners(r.Type), to) && !taken[id] && !answered[r.ID] {
					err = errors.Join(err, fmt.Errorf("%s/%s of %s never reached %s", r.Type,
						r.Key, from, to))
				}
			}
		}
	}
	return err
}

// nothingMadeUp: each processed message was committed by a producer.
func (m *model) nothingMadeUp() (err error) {
	sent := map[store.Identity]bool{}
	for _, s := range m.services() {
		for _, r := range m.rows(s) {
			sent[store.Identity{Source: r.Source, ID: r.ID}] = true
		}
	}
	for _, s := range m.services() {
		for id := range m.taken(s) {
			if !sent[id] {
				err = errors.Join(err, fmt.Errorf("%s took %s, which nobody committed", s, id.ID))
			}
		}
	}
	return err
}

// effectOnce: a message has one effect, unless it was rejected.
func (m *model) effectOnce() (err error) {
	for _, s := range m.services() {
		want := map[string]bool{}
		for _, mark := range m.marks(s) {
			if mark.Outcome == store.Done {
				want["effect/"+s+"/"+mark.Source+"/"+mark.ID] = true
			}
		}
		for key, n := range m.dbs[s].User() {
			if strings.HasPrefix(key, "effect/") && n != "1" {
				err = errors.Join(err, fmt.Errorf("%s: %s times", key, n))
			}
			delete(want, key)
		}
		for key := range want {
			err = errors.Join(err, fmt.Errorf("%s: never, but it is marked as done", key))
		}
	}
	return err
}

// orderPerKey: a service processes the messages of a key in the order of their commits.
func (m *model) orderPerKey() (err error) {
	for _, s := range m.services() {
		for key, text := range m.dbs[s].User() {
			if took := strings.Fields(text); strings.HasPrefix(key, "took/") && !slices.IsSorted(took) {
				err = errors.Join(err, fmt.Errorf("%s: %v", key, took))
			}
		}
	}
	return err
}

// rejectedRightly: a payment was declined only if there was not enough money, in the order of the commits.
func (m *model) rejectedRightly() (err error) {
	balance := map[string]int{}
	for _, r := range m.rows("payment") {
		var v order
		if err := (skald.JSON{}).Decode(context.Background(), r.Message, &v); err != nil {
			return err
		}
		if _, known := balance[v.Customer]; !known {
			balance[v.Customer] = initialBalance
		}
		switch r.Type {
		case "payment.taken":
			balance[v.Customer] -= v.Cents
		case "payment.refunded", "payment.credited":
			balance[v.Customer] += v.Cents
		case "payment.declined":
			if balance[v.Customer] >= v.Cents {
				err = errors.Join(err, fmt.Errorf("order %s over %d was declined with %d on the account",
					v.ID, v.Cents, balance[v.Customer]))
			}
		}
	}
	return err
}

func (m *model) nothingAside() error {
	for _, s := range m.services() {
		if n := len(m.dbs[s].DeferredRows()); n > 0 {
			return fmt.Errorf("%d rows of %s are still deferred", n, s)
		}
	}
	return nil
}

// cursorsForward: the stored position of a shard never goes back.
func (m *model) cursorsForward() error {
	for _, s := range m.services() {
		for _, l := range m.dbs[s].Shards() {
			key, now := shardOf{s, l.ID}, reached(l)
			was := m.cursors[key]
			if slices.Compare(now[:], was[:]) < 0 {
				return fmt.Errorf("shard %d of %s went from %v back to %v", l.ID, s, was, now)
			}
			m.cursors[key] = now
		}
	}
	return nil
}

// reached returns the position of a shard: its last tick, and the row in the window after that.
func reached(l store.Shard) [2]int64 {
	_, text, _ := strings.Cut(l.Cursor.Base, ":")
	base, _ := strconv.ParseInt(text, 10, 64)
	if l.Cursor.Tip == l.Cursor.Base {
		return [2]int64{base, 0}
	}
	return [2]int64{base, l.Cursor.Seq}
}
