package place

import (
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store/pgstore"
)

// ErrNone means that the database or schema does not exist.
var ErrNone = errors.New("no such database")

// UsageError is an error in the arguments of a command.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return e.What }

// Away reports whether a server is unreachable or busy, or other transactions use its tables: retry later.
func Away(err error) bool {
	var busy *pgstore.BusyError
	var outage *skald.OutageError // of a schema registry
	return errors.Is(err, broker.ErrUnavailable) || pgstore.Outage(err) || errors.As(err, &busy) ||
		errors.As(err, &outage)
}
