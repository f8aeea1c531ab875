package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// trusting is a database with rows that break a limit or cannot be decoded: the rows with data "bad".
type trusting struct {
	*memstore.Store
	spoil func(r *store.Row)
	large *store.Large
	asked int // how often bad rows were read to be retried
}

func (d *trusting) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	page, err := d.Store.Pull(ctx, w, limit)
	for i := range page.Rows {
		if d.spoiled(&page.Rows[i]) {
			page.Rows[i].Large = d.large
		}
	}
	return page, err
}

func (d *trusting) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	out, err := d.Store.Deferred(ctx, q)
	for i := range out.Due {
		if d.spoiled(&out.Due[i].Row) {
			out.Due[i].Large = d.large
			d.asked++
		}
	}
	return out, err
}

func (d *trusting) spoiled(r *store.Row) bool {
	if !strings.HasPrefix(string(r.Data), `"bad"`) {
		return false
	}
	d.spoil(r)
	return true
}

// picky is a broker that fails for all topics if one of them has an invalid name.
type picky struct{ *spoiled }

func (p picky) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	for _, name := range names {
		if strings.Contains(name, " ") {
			return nil, errors.New("invalid topic")
		}
	}
	return p.spoiled.Topics(ctx, names...)
}

// TestLargeRowIsDeferredUnread checks that a row that is too large is deferred with its size and hash.
func TestLargeRowIsDeferredUnread(t *testing.T) {
	w := newWorld(t, "orders")
	db := &trusting{Store: w.db, large: &store.Large{Bytes: 200 << 20, SHA256: "abcd"},
		spoil: func(m *store.Row) { m.Type, m.Data = "", nil }}
	r := relay.New(db, w.bus, &relay.Options{Owner: "a", DeferMost: 5 * time.Second,
		Now: func() time.Time { return w.now }})
	w.write("orders", "k1", "one", "bad", "three")
	w.write("orders", "k2", "two")
	w.quiet(r)
	w.expect("orders", "k1", "one")
	w.expect("orders", "k2", "two")
	tried := false
	for _, a := range w.db.DeferredRows() {
		if tried = tried || a.Attempts > 2; a.Attempts > 0 && (!strings.Contains(a.Why, "209715200 bytes") ||
			!strings.Contains(a.Why, "abcd") || a.Large == nil) {
			t.Errorf("deferred as %+v", a)
		}
	}
	if n := len(w.db.DeferredRows()); n != 2 || !tried {
		t.Errorf("%d rows are deferred, read again: %v", n, tried)
	}
}

// TestRowThatBreaksALimitIsDeferredUnpublished checks that a row that breaks a limit, or cannot be decoded,
// is never published, not even on a retry. Its key waits; other keys go on.
func TestRowThatBreaksALimitIsDeferredUnpublished(t *testing.T) {
	for limit, spoil := range map[string]func(m *store.Row){
		"skald_outbox_topic":   func(m *store.Row) { m.Topic = "two words" },
		"skald_outbox_type":    func(m *store.Row) { m.Type = "a\nb" },
		"skald_outbox_subject": func(m *store.Row) { m.Subject = "a\r" },
		"it cannot be read":    func(m *store.Row) { m.Fault, m.Data = "it cannot be read: no base64", nil },
		"skald_outbox_data": func(m *store.Row) {
			m.Data = append([]byte(`"bad"`), make([]byte, 900<<10)...)
		},
	} {
		t.Run(limit, func(t *testing.T) {
			w := newWorld(t, "orders")
			db := &trusting{Store: w.db, spoil: spoil}
			w.bus.refuse = func(m skald.Message, _ bool) error {
				if strings.HasPrefix(string(m.Data), `"bad"`) {
					t.Errorf("the broker received %s %q", m.Type, m.Topic)
				}
				return nil
			}
			r := relay.New(db, picky{w.bus}, &relay.Options{Owner: "a", DeferMost: 5 * time.Second,
				Now: func() time.Time { return w.now }})
			w.write("orders", "k1", "one")
			w.write("orders", "k1", "bad")
			w.write("orders", "k2", "two")
			w.write("orders", "k1", "three")
			w.quiet(r)
			if limit == "skald_outbox_topic" {
				w.expect("orders", "k1", "one", "three") // a row of another topic has another key
			} else {
				w.expect("orders", "k1", "one")
			}
			w.expect("orders", "k2", "two")
			if db.asked < 2 {
				t.Errorf("it was read %d times again", db.asked)
			}
			if n := r.Health().Deferred; n != 1 {
				t.Errorf("%d rows were deferred", n)
			}
		})
	}
}
