package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/sagatest"
)

// The safeguards that can be left out.
const (
	noMark       = "no-mark"
	checkThenAct = "check-then-act"
	ackFirst     = "ack-first"
	idCursor     = "id-cursor"
	createdAt    = "created-at"
	dualWrite    = "dual-write"
)

// Sabotages are the names of the safeguards that can be left out.
func Sabotages() []string {
	return []string{noMark, checkThenAct, ackFirst, idCursor, createdAt, dualWrite}
}

func (o *Options) checkSabotage() error {
	switch {
	case o.Sabotage != "" && !oneOf(o.Sabotage, Sabotages()...):
		return &exit.UsageError{What: fmt.Sprintf("--sabotage is %s, not %q", strings.Join(Sabotages(), ", "),
			o.Sabotage)}
	case oneOf(o.Sabotage, idCursor, createdAt) && !strings.HasPrefix(o.Store, "postgres"):
		return &exit.UsageError{What: "--sabotage " + o.Sabotage +
			" needs --store postgres://…: SQLite has one writer at a time, " +
			"which commits in the order of the rows, so that a cursor over their numbers or times misses nothing there"}
	}
	return nil
}

// life is one session of a service: its seams wrapped with faults, one safeguard taken out where that was
// asked for.
func (s *shop[TTx]) session(ctx context.Context, name string, session *sagatest.Faults,
	client broker.Broker, c *crew) (place.Service, error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return nil, err
	}
	b := sagatest.WrapBroker(client, session)
	home.Store = sagatest.WrapDriver(home.Store, session)
	inner := home.DB
	home.DB = func(tx TTx) table.DB { return upsetting{inner(tx), session} }
	switch c.o.Sabotage {
	case noMark:
		home.Store = sagatest.NoMark(home.Store)
	case ackFirst:
		b = sagatest.AckFirst(b)
	case idCursor:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: c.polledOf(name),
			holds: session == c.faults, by: polledBy{
				largest: s.sql["LargestRow"], value: bySeq, drawn: number(home.Read, s.sql["LastNumber"]),
			}}
	case createdAt:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: c.polledOf(name),
			holds: session == c.faults, by: polledBy{
				largest: s.sql["LatestRow"], value: byTime, drawn: number(home.Read, s.sql["LatestTime"]),
			}}
	case checkThenAct:
		home.Store = &checked[TTx]{home.Store}
	case dualWrite:
		home.Store = sagatest.DualWrite(home.Store, b, "/"+name)
	}
	return service.New(name, home, c.watch.over(b), c.options(name))
}
