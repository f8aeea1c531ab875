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

// trusting is a database that took rows on trust which break a limit: those that say "bad".
type trusting struct {
	*memstore.Store
	spoil func(m *skald.Message)
	asked int // how often bad rows were read to be tried again
}

func (d *trusting) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	page, err := d.Store.Pull(ctx, w, limit)
	for i := range page.Rows {
		d.spoiled(&page.Rows[i].Message)
	}
	return page, err
}

func (d *trusting) Retry(ctx context.Context, lanes []int, limit int) ([]store.Aside, error) {
	due, err := d.Store.Retry(ctx, lanes, limit)
	for i := range due {
		if d.spoiled(&due[i].Message) {
			d.asked++
		}
	}
	return due, err
}

func (d *trusting) spoiled(m *skald.Message) bool {
	if !strings.HasPrefix(string(m.Data), `"bad"`) {
		return false
	}
	d.spoil(m)
	return true
}

// picky fails for all topics if one of them has a name that cannot be.
type picky struct{ *spoiled }

func (p picky) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	for _, name := range names {
		if strings.Contains(name, " ") {
			return nil, errors.New("invalid topic")
		}
	}
	return p.spoiled.Topics(ctx, names...)
}

// A row that breaks a limit never reaches the broker, not when it is tried again either; its key waits, the others go on.
func TestRowThatBreaksALimitIsSetAsideUnpublished(t *testing.T) {
	for limit, spoil := range map[string]func(m *skald.Message){
		"skald_outbox_topic":   func(m *skald.Message) { m.Topic = "two words" },
		"skald_outbox_type":    func(m *skald.Message) { m.Type = "a\nb" },
		"skald_outbox_subject": func(m *skald.Message) { m.Subject = "a\r" },
		"skald_outbox_data":    func(m *skald.Message) { m.Data = append([]byte(`"bad"`), make([]byte, 900<<10)...) },
	} {
		t.Run(limit, func(t *testing.T) {
			w := newWorld(t, "orders")
			db := &trusting{Store: w.db, spoil: spoil}
			w.bus.refuse = func(m skald.Message, _ bool) error {
				if strings.HasPrefix(string(m.Data), `"bad"`) {
					t.Errorf("the broker was given %s %q", m.Type, m.Topic)
				}
				return nil
			}
			r := relay.New(db, picky{w.bus}, &relay.Options{Owner: "a", AsideMost: 5 * time.Second, Now: func() time.Time { return w.now }})
			w.write("orders", "k1", "one")
			w.write("orders", "k1", "bad")
			w.write("orders", "k2", "two")
			w.write("orders", "k1", "three")
			w.quiet(r)
			if limit == "skald_outbox_topic" {
				w.expect("orders", "k1", "one", "three") // what has another topic has another key
			} else {
				w.expect("orders", "k1", "one")
			}
			w.expect("orders", "k2", "two")
			if db.asked < 2 {
				t.Errorf("it was looked at %d times again", db.asked)
			}
			if n := r.Health().SetAside; n != 1 {
				t.Errorf("%d rows were set aside", n)
			}
		})
	}
}
