package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

const (
	admitEvery = 5 * time.Second // how often each instance asks for messages that were admitted
	rekeyEvery = time.Minute
	admitMost  = 100          // in memory at a time
	inside     = "quarantine" // the lane that they are in
)

// admitted takes messages out of quarantine that somebody admitted, into a lane of their own.
func (in *Inbox[TTx]) admitted(ctx context.Context) {
	now := in.o.Now()
	if now.Before(in.askAt) {
		return
	}
	in.askAt = now.Add(admitEvery)
	if _, ok := in.inside.prefix(); ok || len(in.inside.entries) < admitMost {
		list, err := in.db.Quarantined(ctx, store.Query{Consumer: in.group, Admitted: true, Limit: admitMost})
		if err != nil {
			in.o.Logger.DebugContext(ctx, "inbox: look for admitted messages", "consumer", in.group, "error", err)
			return
		}
		in.admit(ctx, list)
	}
}

func (in *Inbox[TTx]) admit(ctx context.Context, list []store.Quarantined) {
	known := map[int64]bool{}
	for _, e := range in.inside.entries {
		known[e.apart.Number] = true
	}
	var fresh []*entry
	for _, q := range list {
		switch {
		case known[q.Number]:
		case in.handlers[kind{q.Message.Topic, q.Message.Type}] == nil:
			in.o.Logger.WarnContext(ctx, "inbox: a message that was admitted stays in quarantine", "consumer", in.group,
				"number", q.Number, "topic", q.Message.Topic, "type", q.Message.Type, "error", errNoHandler)
		default:
			e := in.inside.add(broker.Delivery{Message: q.Message, Lane: inside, Position: q.Number})
			e.id, e.apart = q.Identity, &q
			fresh = append(fresh, e)
		}
	}
	in.schedule(fresh)
}

// rekey reads the key of fingerprints, now and then again: the database may be another one. Until it can be had the old one
// serves.
func (in *Inbox[TTx]) rekey(ctx context.Context) error {
	now := in.o.Now()
	if in.key.Load() != nil && now.Before(in.keyAt) {
		return nil
	}
	key, err := in.db.Secret(ctx)
	if err != nil {
		return err
	}
	in.key.Store(&key)
	in.keyAt = now.Add(rekeyEvery)
	return nil
}
