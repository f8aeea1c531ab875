package place

import (
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store/pgstore"
)

// ErrNone: there is no such database or schema.
var ErrNone = errors.New("no such database")

// A UsageError says that a command was called wrongly.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return e.What }

// Away tells whether a server cannot be reached or has no time, or other transactions use its tables: try
// again later.
func Away(err error) bool {
	var busy *pgstore.BusyError
	var outage *skald.OutageError // of a schema registry
	return errors.Is(err, broker.ErrAway) || pgstore.Outage(err) || errors.As(err, &busy) ||
		errors.As(err, &outage)
}
