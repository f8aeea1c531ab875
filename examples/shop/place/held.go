package place

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/store"
)

// hearing is how long the services' databases have to say what they keep of an order: a status does not wait for one that is away.
const hearing = 2 * time.Second

// asking is o, in which Order's status asks the services that are open here. A service that runs alone knows of itself only.
func (d *Databases[TTx]) asking(o *service.Options) *service.Options {
	var all service.Options
	if o != nil {
		all = *o
	}
	if all.Held == nil {
		events := event.New(all.Prefix)
		all.Held = func(ctx context.Context, id string) ([]order.Held, error) { return d.held(ctx, events, id) }
	}
	return &all
}

// held is what holds an order at the services that are open, in their order. One that gives no answer is told as unknown.
func (d *Databases[TTx]) held(ctx context.Context, events *event.Events, id string) (out []order.Held, err error) {
	ctx, stop := context.WithTimeout(ctx, hearing)
	defer stop()
	d.mu.Lock()
	open := maps.Clone(d.open)
	d.mu.Unlock()
	names := service.Names()
	found, errs := make([][]order.Held, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if o := open[name]; o != nil {
			all.Go(func() { found[i], errs[i] = d.heldAt(ctx, o.home.Store, name, events.Group(name), id) })
		}
	}
	all.Wait()
	for _, some := range found {
		out = append(out, some...)
	}
	return out, errors.Join(errs...)
}

// heldAt is what holds the order's key at a service: what waits behind another message goes on with that.
func (d *Databases[TTx]) heldAt(ctx context.Context, s store.Keeper, name, consumer, key string) (out []order.Held, err error) {
	what := store.Sought{Consumer: consumer, Key: []byte(key), Bare: true}
	for {
		page, err := s.Kept(ctx, what, 100)
		if err != nil {
			unknown := order.Held{Service: name, Consumer: consumer, State: "unknown", Why: "its database gave no answer"}
			return []order.Held{unknown}, fmt.Errorf("ask %s what holds %s: %w", name, key, err)
		}
		for _, p := range page {
			what.After = p.Place
			if failed := p.Dead != nil || p.Last.Why != ""; failed && !p.Waiting { // else it is on its way: a call, perhaps
				out = append(out, holder(name, d.kind.flags(name), &p))
			}
		}
		if len(page) < 100 {
			return out, nil
		}
	}
}

func holder(name, flags string, p *store.Parked) order.Held {
	why, _, _ := strings.Cut(p.Last.Why, "\n")
	h := order.Held{Service: name, Consumer: p.Consumer, State: "parked", ID: p.ID, Type: p.Message.Type, Attempts: p.Attempts, Why: why}
	who := " " + flags + " --consumer " + quoted(p.Consumer)
	const reason = " --reason 'the cause is gone'"
	if p.Dead == nil {
		h.DueSeconds = p.Due.Seconds()
		h.Command = "skald parked release" + who + " --key " + typed(p.Message.Key) + reason
		return h
	}
	h.State, h.Kind, h.Fingerprint = "dead", p.Dead.Kind, p.Dead.Fingerprint
	who += " --source " + quoted(p.Source) + " --id " + quoted(p.ID)
	if h.Command = "skald dead redrive" + who + reason; p.Dead.Kind == "rejected" { // it was answered; to take it again changes nothing
		h.Command = "skald dead drop" + who + " --reason 'the answer stands'"
	}
	return h
}

// typed is a key as a shell and --key take it: one that is no text in base64.
func typed(key []byte) string {
	const code = "base64:"
	text := string(key)
	if strings.HasPrefix(text, code) || strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return code + base64.StdEncoding.EncodeToString(key)
	}
	return quoted(text)
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
