package console

import (
	"context"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Source is the database of a service.
type Source struct{ is page.Database }

// NewSource returns the source of a driver. Its database user needs the rights of a reader, and those of an
// app for operations.
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

// WithFlags sets the flags with which the skald command finds the database, "--store @orders.url". Pages show
// them in commands, so they must not contain a password. Default: the commands expect SKALD_STORE.
func (s Source) WithFlags(flags string) Source {
	s.is.At = flags
	return s
}

// Unreachable is a source that did not answer, and the reason, in the JSON of pages.
type Unreachable = page.Unreachable
