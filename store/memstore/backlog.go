package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// backlog counts unpublished rows and waiting messages, and reads the state of consumers and relays.
func (d *database) backlog() (b store.Backlog) {
	now := d.now()
	d.outbox.Count(&b, now)
	b.PerConsumer, b.Consumers = d.keptFor(now), d.consumers.List(now)
	b.Reserved = d.reservations.Count(now)
	return b
}

// keptFor counts the parked, dead and quarantined messages of each consumer that has any.
func (d *database) keptFor(now time.Time) (out []store.ConsumerBacklog) {
	all := map[string]*store.ConsumerBacklog{}
	of := func(consumer string) *store.ConsumerBacklog {
		if all[consumer] == nil {
			all[consumer] = &store.ConsumerBacklog{Consumer: consumer}
		}
		return all[consumer]
	}
	d.kept.Count(of, now)
	d.quarantine.Count(of, now)
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[consumer])
	}
	return out
}
