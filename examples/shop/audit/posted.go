package audit

import (
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald/examples/shop/table"
)

// posted is the answer to a POST of an order.
type posted struct {
	key  string
	code int64
	body string
}

// order returns the order id in the answer, or "".
func (p posted) order() string {
	var body struct{ ID string }
	if json.Unmarshal([]byte(p.body), &body) != nil {
		return ""
	}
	return body.ID
}

func (r *reader) posted(query string) (out []posted) {
	r.each("order", query, func(row table.Row) error {
		var p posted
		var body []byte
		err := row.Scan(&p.key, &p.code, &body)
		p.body = string(body)
		out = append(out, p)
		return err
	})
	return out
}

// postedOnce checks that each key belongs to one order, however often it was posted and to however many
// processes, and that each POST got the stored answer. If customers recorded their answers, every order
// must have a key: a POST that took effect twice would leave an order without one.
func (b *books) postedOnce() Invariant {
	var f findings
	stored, keys := map[string]posted{}, map[string]string{} // by key; by order
	for _, a := range b.answers {
		stored[a.key] = a
		id := a.order()
		f.hold(b.byID[id] != nil, "order %s, the answer to key %s, does not exist", id, a.key)
		f.hold(keys[id] == "", "order %s has two keys, %s and %s", id, keys[id], a.key)
		keys[id] = a.key
	}
	for _, r := range b.receipts {
		f.hold(stored[r.key] == r,
			"order %s: a post under key %s was answered with %d %.200s, stored is %d %.200s", r.order(),
			r.key, r.code, r.body,
			stored[r.key].code, stored[r.key].body)
	}
	for _, o := range b.orders {
		if len(b.receipts) > 0 {
			f.hold(keys[o.id] != "", "order %s has no key: a POST took effect twice", o.id)
		}
	}
	return f.verdict("posted_once", fmt.Sprintf("%d keys, %d answers to their posts", len(b.answers),
		len(b.receipts)))
}
