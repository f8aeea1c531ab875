package operate_test

import (
	"context"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// payloadsRead counts the payloads that a list of the quarantine holds.
type payloadsRead struct {
	*memstore.Store
	n, most int
}

func (c *payloadsRead) List(ctx context.Context, l store.List) (store.Listed, error) {
	out, err := c.Store.List(ctx, l)
	here := 0
	for i := range out.Quarantined {
		if out.Quarantined[i].Message.Data != nil {
			here++
		}
	}
	c.n, c.most = c.n+here, max(c.most, here)
	return out, err
}

// Many sources use the same id, and each has a large message in quarantine. Show reads the payloads of one
// source, or a few, one by one.
func TestShowReadsFewPayloads(t *testing.T) {
	db := &payloadsRead{Store: memstore.New(nil)}
	const size = 64 << 10
	put := func(source, id string, n int64) {
		m := skald.Message{ID: id, Source: source, Topic: "orders", Type: "order.placed",
			Data: make([]byte, size)}
		_, err := db.Apply(t.Context(), store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity:    store.Identity{Source: source, ID: id},
			Fingerprint: n, Why: store.Conflict, Message: m}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		put("/"+string(rune('A'+i)), "7", 1)
		put("/A", "other", int64(i))
	}
	put("/A", "7", 2)
	for name, c := range map[string]struct {
		id          store.Identity
		sourced     bool
		rows, reads int
	}{
		"with its source": {store.Identity{Source: "/A", ID: "7"}, true, 2, 2},
		"without":         {store.Identity{ID: "7"}, false, 41, store.QuarantineOfOne},
	} {
		db.n, db.most = 0, 0
		k, err := operate.Show(t.Context(), db, "stock", c.id, c.sourced)
		if err != nil {
			t.Fatal(err)
		}
		if len(k.Quarantine) != c.rows || db.n != c.reads || db.most > 1 {
			t.Errorf("%s: %d rows, %d payloads, %d at once", name, len(k.Quarantine), db.n, db.most)
		}
		for i, q := range k.Quarantine {
			if q.Bytes != size || (q.Data != nil) != (i < store.QuarantineOfOne) ||
				c.sourced && q.Source != "/A" {
				t.Errorf("%s: row %d is of %s, has %d of %d bytes", name, i, q.Source, len(q.Data), q.Bytes)
			}
		}
	}
}
