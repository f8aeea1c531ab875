package exec

import (
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/control"
)

// skipped tells whether an operator has what fails so skipped.
func (x *Executor[TTx]) skipped(class failure.Class, e *partition.Entry,
	err error) (o control.Order, yes bool) {
	skips := x.skips.Load()
	if skips == nil || len(*skips) == 0 {
		return o, false
	}
	o, yes = (*skips)[x.prints.Of(class, e.Type, err.Error())]
	return o, yes
}

// errSkipped is noted with a dead letter that was skipped.
func errSkipped(o control.Order, err error) error {
	return errors.Join(err, fmt.Errorf("skipped, as %s told: %s", o.Who, o.Why))
}
