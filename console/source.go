package console

import (
	"context"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Source is the database of a service.
type Source struct{ is page.Database }

// NewSource returns the source for a driver. The database user of the driver needs the rights of a reader.
// For operations it also needs the rights of an app.
func NewSource[TTx any](db store.Driver[TTx]) Source {
	s := page.Database{DB: db}
	if c, ok := db.(operate.CompensateStore[TTx]); ok {
		s.Compensate = func(ctx context.Context, w operate.CompensateRequest,
			o operate.Order) (operate.CompensateReport, error) {
			return operate.Compensate(ctx, c, w, o)
		}
		s.CompensateAll = func(ctx context.Context, sel operate.FlowSelection,
			o operate.Order) (operate.SagaReport, error) {
			return operate.CompensateAll(ctx, c, sel, o)
		}
	}
	return Source{s}
}

// WithFlags sets the flags that select this database for the skald command, such as "--store @orders.url".
// Pages show commands with these flags, so the flags must not contain a password. Without flags, the commands
// on the pages need SKALD_STORE.
func (s Source) WithFlags(flags string) Source {
	s.is.At = flags
	return s
}

// Unreachable is a source that did not answer, with the reason. It is part of the JSON of pages.
type Unreachable = page.Unreachable
