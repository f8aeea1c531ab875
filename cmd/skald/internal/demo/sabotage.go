// This file takes one safeguard out of the shop's services: what it is for is seen by what breaks.

package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
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

// names are the names of the safeguards that can be left out.
func names() []string {
	return []string{noMark, checkThenAct, ackFirst, idCursor, createdAt, dualWrite}
}

// check finds fault with the name of a safeguard, "" for none, in a shop whose databases are at store.
func check(name, store string) error {
	switch {
	case name != "" && !slices.Contains(names(), name):
		return &cli.UsageError{What: fmt.Sprintf("--sabotage is %s, not %q", strings.Join(names(), ", "),
			name)}
	case (name == idCursor || name == createdAt) && !strings.HasPrefix(store, "postgres"):
		return &cli.UsageError{What: "--sabotage " + name +
			" needs --store postgres://…: SQLite has one writer at a time, " +
			"which commits in the order of the rows, so that a cursor over their numbers or times misses nothing there"}
	}
	return nil
}

// A lack is the safeguard that a shop has not.
type lack struct {
	name string // "": it has all
	sql  map[string]string

	mu     sync.Mutex
	polled map[string]*polled // by service, for the cursors
}

// newSabotage is the lack of the safeguard of this name; "": of none.
func newSabotage(name string) (*lack, error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	return &lack{name: name, sql: statements, polled: map[string]*polled{}}, nil
}

// without takes the safeguard out of what a service works with; customers tells that its handlers answer
// them, and not messages.
func without[TTx any](l *lack, service string, customers bool, home table.Home[TTx],
	b broker.Broker) (table.Home[TTx], broker.Broker) {
	switch l.name {
	case noMark:
		home.Store = sagatest.NoMark(home.Store)
	case ackFirst:
		b = sagatest.AckFirst(b)
	case idCursor:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: customers, by: polledBy{
				largest: l.sql["LargestRow"], value: bySeq, drawn: number(home.Read, l.sql["LastNumber"]),
			}}
	case createdAt:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: customers, by: polledBy{
				largest: l.sql["LatestRow"], value: byTime, drawn: number(home.Read, l.sql["LatestTime"]),
			}}
	case checkThenAct:
		home.Store = &checked[TTx]{home.Store}
	case dualWrite:
		home.Store = sagatest.DualWrite(home.Store, b, "/"+service)
	}
	return home, b
}

func (l *lack) polledOf(service string) *polled {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.polled[service] == nil {
		l.polled[service] = newPolled()
	}
	return l.polled[service]
}
