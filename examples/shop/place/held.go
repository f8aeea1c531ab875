package place

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// hearing is how long the services have to say what they keep of an order, here and elsewhere: a status does
// not wait for one that is away.
const hearing = 2 * time.Second

// asking is o, in which Order's status asks the services that are open here, unless o says who is asked.
func (d *Databases[TTx]) asking(o *service.Options) *service.Options {
	var all service.Options
	if o != nil {
		all = *o
	}
	if all.Held == nil {
		all.Held = d.Held(all.Prefix, nil)
	}
	return &all
}

// Held tells what holds an order at the services that are open here when it is asked, and at those elsewhere.
// One that is neither is left out.
func (d *Databases[TTx]) Held(prefix string, elsewhere Elsewhere) order.Finder {
	events := event.New(prefix)
	return func(ctx context.Context, id string) ([]order.Held, error) {
		ctx, stop := context.WithTimeout(ctx, hearing)
		defer stop()
		asked := elsewhere.finders(events)
		maps.Copy(asked, d.here(events))
		return askAll(ctx, asked, id)
	}
}

// here are the services that are open.
func (d *Databases[TTx]) here(events *event.Events) map[string]order.Finder {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]order.Finder{}
	for _, name := range service.Names() {
		if o := d.open[name]; o != nil {
			out[name] = func(ctx context.Context, id string) ([]order.Held, error) {
				return d.heldAt(ctx, o.home.Store, name, events.Group(name), id)
			}
		}
	}
	return out
}

// askAll asks all at once, and tells what they say in the order of the services. One that gives no answer has
// told so.
func askAll(ctx context.Context, asked map[string]order.Finder, id string) (out []order.Held, err error) {
	names := service.Names()
	found, errs := make([][]order.Held, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if find := asked[name]; find != nil {
			all.Go(func() { found[i], errs[i] = find(ctx, id) })
		}
	}
	all.Wait()
	for _, some := range found {
		out = append(out, some...)
	}
	return out, errors.Join(errs...)
}

// heldAt is what holds the order's key at a service: what waits behind another message goes on with that.
func (d *Databases[TTx]) heldAt(ctx context.Context, s store.Lister, name, consumer, key string) (out []order.Held, err error) {
	found, err := operate.Holders(ctx, s, [][]byte{[]byte(key)}, d.kind.flags(name))
	if err != nil {
		unknown := order.Held{Service: name, Consumer: consumer, State: "unknown", Why: "its database gave no answer"}
		return []order.Held{unknown}, fmt.Errorf("ask %s what holds %s: %w", name, key, err)
	}
	for i := range found {
		if h := &found[i]; h.Consumer == consumer {
			out = append(out, order.Held{Service: name, Consumer: consumer, State: h.State, ID: h.ID, Type: h.Type, Attempts: h.Attempts, Why: h.LastError,
				Command: h.Command, DueSeconds: h.DueSeconds, Kind: h.Kind, Fingerprint: h.Fingerprint})
		}
	}
	return out, nil
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
