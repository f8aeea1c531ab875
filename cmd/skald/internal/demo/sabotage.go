// This file removes one safeguard from the services, to show which promises break without it.

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

// names returns the safeguards that can be removed.
func names() []string {
	return []string{noMark, checkThenAct, ackFirst, idCursor, createdAt, dualWrite}
}

// check returns a usage error if the safeguard is unknown or does not apply to the store. An empty name is no
// error.
func check(name, store string) error {
	switch {
	case name != "" && !slices.Contains(names(), name):
		return &cli.UsageError{What: fmt.Sprintf("--sabotage is %s, not %q", strings.Join(names(), ", "),
			name)}
	case (name == idCursor || name == createdAt) && !strings.HasPrefix(store, "postgres"):
		return &cli.UsageError{What: "--sabotage " + name +
			" needs --store postgres://…: SQLite has one writer at a time, " +
			"so its commits are in the order of the rows, and such a cursor misses nothing"}
	}
	return nil
}

// lack is the safeguard that the run leaves out.
type lack struct {
	name string // empty if the run has all safeguards
	sql  map[string]string

	mu     sync.Mutex
	polled map[string]*polled // by service, for the cursors
}

// newSabotage returns the lack of the safeguard with this name. The name may be "".
func newSabotage(name string) (*lack, error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	return &lack{name: name, sql: statements, polled: map[string]*polled{}}, nil
}

// withSabotage returns the database and the broker of a service without the safeguard. The argument
// servesCustomers is true for the session that serves customers, and false for the session that handles
// messages.
func withSabotage[TTx any](l *lack, service string, servesCustomers bool, home table.Home[TTx],
	b broker.Broker) (table.Home[TTx], broker.Broker) {
	switch l.name {
	case noMark:
		home.Store = sagatest.NoMark(home.Store)
	case ackFirst:
		b = sagatest.AckFirst(b)
	case idCursor:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: servesCustomers, by: polledBy{
				largest: l.sql["LargestRow"], value: bySeq, drawn: number(home.Read, l.sql["LastNumber"]),
			}}
	case createdAt:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: servesCustomers, by: polledBy{
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
