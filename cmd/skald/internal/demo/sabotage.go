package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/sagatest"
)

// The safeguards that can be left out.
const (
	noMark    = "no-mark"
	ackFirst  = "ack-first"
	idCursor  = "id-cursor"
	dualWrite = "dual-write"
)

// Sabotages are the names of the safeguards that can be left out.
func Sabotages() []string { return []string{noMark, ackFirst, idCursor, dualWrite} }

func (o *Options) checkSabotage() error {
	switch {
	case o.Sabotage != "" && !oneOf(o.Sabotage, Sabotages()...):
		return &place.UsageError{What: fmt.Sprintf("--sabotage is %s, not %q", strings.Join(Sabotages(), ", "), o.Sabotage)}
	case o.Sabotage == idCursor && !strings.HasPrefix(o.Store, "postgres"):
		return &place.UsageError{What: "--sabotage id-cursor needs --store postgres://…: SQLite has one writer at a time, " +
			"which commits in the order of the rows, so that a cursor over their numbers misses nothing there"}
	}
	return nil
}

// life is one life of a service: its seams wrapped with faults, one safeguard taken out where that was asked for.
func (g *ground[TTx]) life(ctx context.Context, name string, life *sagatest.Faults, client broker.Broker, c *crew) (place.Service, error) {
	home, err := g.Home(ctx, name)
	if err != nil {
		return nil, err
	}
	b := sagatest.WrapBroker(client, life)
	home.Store = sagatest.WrapDriver(home.Store, life)
	switch c.o.Sabotage {
	case noMark:
		home.Store = sagatest.NoMark(home.Store)
	case ackFirst:
		b = sagatest.AckFirst(b)
	case idCursor:
		home.Store = &byID[TTx]{Driver: home.Store, db: home.Read, largest: g.sql["LargestRow"]}
	case dualWrite:
		home.Store = sagatest.DualWrite(home.Store, b, "/"+name)
	}
	return service.New(name, home, c.watch.over(b), c.options())
}
