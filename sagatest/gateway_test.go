package sagatest_test

import (
	"context"

	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// crashGateway makes each request to the gateway an I/O of a process: the process dies before or after it,
// or gets an error although the request took effect.
type crashGateway struct {
	gateway.Gateway
	p *sagatest.Process
}

func (g *crashGateway) Charge(ctx context.Context, key string,
	m gateway.Move) (r gateway.Receipt, err error) {
	err = g.p.IO("charge "+short(key), func() (err error) {
		r, err = g.Gateway.Charge(ctx, key, m)
		return err
	})
	return r, err
}

func (g *crashGateway) Refund(ctx context.Context, key string,
	m gateway.Move) (r gateway.Receipt, err error) {
	err = g.p.IO("refund "+short(key), func() (err error) {
		r, err = g.Gateway.Refund(ctx, key, m)
		return err
	})
	return r, err
}

func (g *crashGateway) Find(ctx context.Context, key string) (r gateway.Receipt, found bool, err error) {
	err = g.p.IO("look up "+short(key), func() (err error) {
		r, found, err = g.Gateway.Find(ctx, key)
		return err
	})
	return r, found, err
}

func short(s string) string { return s[max(0, len(s)-4):] }

// impatient is a driver that makes parked messages, and the claims of a dead process, due immediately. Real
// databases use their own clocks, which the world cannot move. So the result of waiting would depend on the
// machine. The polls of an inbox use the world's clock.
type impatient[TTx any] struct{ store.Driver[TTx] }

func (d *impatient[TTx]) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if w.Sagas == nil {
		w.Lease = 0
	}
	return d.Driver.Claim(ctx, w)
}

func (d *impatient[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return impatientUnit[TTx]{u}, nil
}

func (d *impatient[TTx]) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	return d.Driver.Apply(ctx, atOnce(es)...)
}

type impatientUnit[TTx any] struct{ store.Unit[TTx] }

// Found hides that the next unit could begin with the commit, because such a unit would not be wrapped.
func (u impatientUnit[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Follows = false
	return f
}

func (u impatientUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	return u.Unit.Commit(ctx, atOnce(es)...)
}

func (u impatientUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	return u.Unit.Rollback(ctx, atOnce(instead)...)
}

func atOnce(es []store.Effect) []store.Effect {
	for i := range es {
		if k := es[i].Park; k != nil {
			k.Due = 0
		}
	}
	return es
}
