package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func (d *database) backlog() (b store.Backlog) {
	now := d.now()
	d.outbox.Count(&b, now)
	b.Kept = d.keptFor(now)
	d.standing(&b, now)
	b.Reserved = d.reservedCounts(now)
	return b
}

func (d *database) reservedCounts(now time.Time) (out []store.ReservedCounts) {
	all := map[string]store.ReservedCounts{}
	for key, r := range d.reserved {
		n := all[key.Consumer]
		if r.until.After(now) {
			n.Held++
		} else {
			n.Expired++
		}
		all[key.Consumer] = n
	}
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		n := all[consumer]
		n.Consumer = consumer
		out = append(out, n)
	}
	return out
}

// standing adds how consumers get on.
func (d *database) standing(b *store.Backlog, now time.Time) {
	topics := map[string][]string{}
	for k := range d.kinds {
		topics[k.consumer] = append(topics[k.consumer], k.Topic)
	}
	for _, name := range slices.Sorted(maps.Keys(d.consumers)) {
		c, of := d.consumers[name], topics[name]
		slices.Sort(of)
		b.Consumers = append(b.Consumers, store.Consumer{Name: name, Topics: slices.Compact(of),
			Heard: now.Sub(c.heard), Progress: now.Sub(c.progress)})
	}
}

// keptFor is what is kept for each consumer that something is kept for.
func (d *database) keptFor(now time.Time) (out []store.Kept) {
	all := map[string]*store.Kept{}
	of := func(consumer string) *store.Kept {
		if all[consumer] == nil {
			all[consumer] = &store.Kept{Consumer: consumer}
		}
		return all[consumer]
	}
	d.kept.Count(of, now)
	for _, q := range d.apart {
		if !q.Admitted.IsZero() {
			continue
		}
		k := of(q.Consumer)
		k.Apart = max(k.Apart, now.Sub(q.At))
		if q.Why == store.Conflict {
			k.Conflicts++
		} else {
			k.TooOld++
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[consumer])
	}
	return out
}
