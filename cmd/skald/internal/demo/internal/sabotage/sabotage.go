// Package sabotage takes one safeguard out of the shop's services: what it is for is seen by what breaks.
package sabotage

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/sagatest"
)

//go:embed sql/query
var queries embed.FS

// The safeguards that can be left out.
const (
	NoMark       = "no-mark"
	CheckThenAct = "check-then-act"
	AckFirst     = "ack-first"
	IDCursor     = "id-cursor"
	CreatedAt    = "created-at"
	DualWrite    = "dual-write"
)

// Names are the names of the safeguards that can be left out.
func Names() []string {
	return []string{NoMark, CheckThenAct, AckFirst, IDCursor, CreatedAt, DualWrite}
}

// Check finds fault with the name of a safeguard, "" for none, in a shop whose databases are at store.
func Check(name, store string) error {
	switch {
	case name != "" && !slices.Contains(Names(), name):
		return &exit.UsageError{What: fmt.Sprintf("--sabotage is %s, not %q", strings.Join(Names(), ", "),
			name)}
	case (name == IDCursor || name == CreatedAt) && !strings.HasPrefix(store, "postgres"):
		return &exit.UsageError{What: "--sabotage " + name +
			" needs --store postgres://…: SQLite has one writer at a time, " +
			"which commits in the order of the rows, so that a cursor over their numbers or times misses nothing there"}
	}
	return nil
}

// A Lack is the safeguard that a shop has not.
type Lack struct {
	name string // "": it has all
	sql  map[string]string

	mu     sync.Mutex
	polled map[string]*polled // by service, for the cursors
}

// New is the lack of the safeguard of this name; "": of none.
func New(name string) (*Lack, error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	return &Lack{name: name, sql: statements, polled: map[string]*polled{}}, nil
}

// Without takes the safeguard out of what a service works with; customers tells that its handlers answer
// them, and not messages.
func Without[TTx any](l *Lack, service string, customers bool, home table.Home[TTx],
	b broker.Broker) (table.Home[TTx], broker.Broker) {
	switch l.name {
	case NoMark:
		home.Store = sagatest.NoMark(home.Store)
	case AckFirst:
		b = sagatest.AckFirst(b)
	case IDCursor:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: customers, by: polledBy{
				largest: l.sql["LargestRow"], value: bySeq, drawn: number(home.Read, l.sql["LastNumber"]),
			}}
	case CreatedAt:
		home.Store = &polling[TTx]{Driver: home.Store, db: home.Read, polled: l.polledOf(service),
			holds: customers, by: polledBy{
				largest: l.sql["LatestRow"], value: byTime, drawn: number(home.Read, l.sql["LatestTime"]),
			}}
	case CheckThenAct:
		home.Store = &checked[TTx]{home.Store}
	case DualWrite:
		home.Store = sagatest.DualWrite(home.Store, b, "/"+service)
	}
	return home, b
}

func (l *Lack) polledOf(service string) *polled {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.polled[service] == nil {
		l.polled[service] = newPolled()
	}
	return l.polled[service]
}
