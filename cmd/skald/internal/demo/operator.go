package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/demo/internal/customers"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

const (
	// elsewhere is who says what nobody can read.
	elsewhere = "/elsewhere"
	// poisonEvery is after how many orders there is one more of it.
	poisonEvery = 40
	// round is how often the operator looks at what is kept.
	round = 250 * time.Millisecond
	// A message that is claimed is nobody else's for 13 s, here. One that has been for a second, of a service
	// whose handlers take milliseconds, was in hand when that died; no pause between attempts is longer than
	// the lesser of these.
	claimedMost, claimedLeast = 12 * time.Second, 3 * time.Second
)

// upsets tells whether dead letters are to be expected.
func (c *crew) upsets() bool {
	rates, _ := sagatest.RatesOf(c.o.Faults) // Check has seen to the name
	return rates.HandlerGivesUp > 0
}

// poison publishes, under the key of an order, what no service can read: half a payload, or one of a version
// that no build here knows. The order waits behind it, until the operator has dropped it.
func (c *crew) poison(ctx context.Context, order string, n int) {
	if !c.upsets() || n%poisonEvery != poisonEvery/2 {
		return
	}
	placed := event.New(c.o.Prefix).OrderPlaced
	kind := placed.Type
	if c.o.orchestrated() {
		kind = event.ChargePayment
	}
	m := skald.Message{
		ID: rand.Text(), Source: elsewhere, Type: kind, Topic: placed.Topic, Key: []byte(order),
		Time:        time.Now(),
		ContentType: "application/json", Data: []byte(`{"id": "` + order),
	}
	if n/poisonEvery%2 == 1 {
		m.Schema, m.Data = kind+"/2", []byte(`{"order": 1}`)
	}
	customers.Insist(ctx, c.o.Logger, order,
		func() error { return c.bus.Own.Publish(ctx, []skald.Message{m}).Wait(ctx) })
	c.poisoned.Add(int64(len(audit.Subscribers(kind, c.o.orchestrated()))))
}

// operate does, until ctx is done, what somebody on call does: redrives dead letters of failures that do not
// last, drops, for a reason, what nobody can read, and releases what a dead service had in hand.
func (c *crew) operate(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(round):
		}
		for _, name := range service.Names() {
			n, err := c.site.mend(ctx, name, event.New(c.o.Prefix).Group(name))
			c.dropped.Add(int64(n))
			if err == nil && name == "order" {
				_, err = c.site.mend(ctx, name, event.New(c.o.Prefix).Group(event.Tracker))
			}
			if err == nil && name == "order" && c.o.orchestrated() {
				err = c.site.retry(ctx)
			}
			if err != nil && ctx.Err() == nil {
				c.o.Logger.WarnContext(ctx, "operator", "service", name, "error", err)
			}
		}
	}
}

// mended tells that nobody keeps a message any more, and that all that nobody can read was seen.
func (c *crew) mended(ctx context.Context) (bool, error) {
	if c.dropped.Load() < c.poisoned.Load() {
		return false, nil
	}
	for _, name := range service.Names() {
		kept, err := c.site.keeping(ctx, name, event.New(c.o.Prefix).Group(name))
		if kept > 0 || err != nil {
			return false, err
		}
	}
	kept, err := c.site.keeping(ctx, "order", event.New(c.o.Prefix).Group(event.Tracker))
	return kept == 0, err
}

// mend redrives, drops and releases what a service keeps, if its database is there.
func (s *shop[TTx]) mend(ctx context.Context, name, consumer string) (dropped int, err error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return 0, nil // not yet
	}
	kept, err := store.ListKept(ctx, home.Store, store.Sought{Consumer: consumer, Bare: true, Limit: 1000})
	if err != nil {
		return 0, fmt.Errorf("look at what %s keeps: %w", name, err)
	}
	var es []store.Effect
	for i := range kept {
		if e, ok := mending(&kept[i]); ok {
			es = append(es, e)
		}
	}
	if len(es) == 0 {
		return 0, nil
	}
	stood, err := home.Store.Apply(ctx, es...)
	for i, e := range es {
		if e.Finish != nil && stood[i] {
			dropped++
		}
	}
	if err != nil {
		err = fmt.Errorf("see to what %s keeps: %w", name, err)
	}
	return dropped, err
}

// retry has the steps of stuck sagas tried again: their failures do not last.
func (s *shop[TTx]) retry(ctx context.Context) error {
	home, err := s.Home(ctx, "order")
	if err != nil {
		return nil // not yet
	}
	order := operate.Order{Author: "skald demo", Reason: "it does not last"}
	_, err = operate.ChangeSagas(ctx, home.Store, operate.SagaSelection{Stuck: true},
		operate.SagaChange{Verb: operate.RetrySaga}, order)
	if none := (*operate.NoneError)(nil); errors.As(err, &none) {
		return nil
	}
	return err
}

// mending is what the operator does about a message that is kept; most only wait.
func mending(p *store.Parked) (e store.Effect, some bool) {
	note := &store.Audit{Author: "skald demo", Consumer: p.Consumer, Identity: p.Identity}
	switch {
	case p.Source == elsewhere && (p.Dead != nil || p.Last.Why != ""):
		note.Action, note.Reason = "drop", "nobody can read it: "+p.Last.Why
		return store.Effect{
			Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity}, Audit: note,
			Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected,
				Reason: "dropped: nobody can read it", Held: true},
		}, true
	case p.Dead != nil:
		note.Action, note.Reason = "redrive", "it does not last: "+p.Last.Why
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	case !p.Waiting && p.Due > claimedLeast && p.Due < claimedMost:
		note.Action, note.Reason = "release", "its service died with it in hand"
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	}
	return e, false
}

// keeping is how many messages a service keeps.
func (s *shop[TTx]) keeping(ctx context.Context, name, consumer string) (int64, error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return 0, err
	}
	k, err := home.Store.Status(ctx, store.StatusQuery{Keeping: consumer})
	return k.Keeping.Parked + k.Keeping.Dead, err
}
