package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// death is what a dead letter of e says of itself.
func (x *Executor[TTx]) death(kind string, class failure.Class, e *partition.Entry, err error,
	now time.Time) *store.Death {
	d := failure.NewDeath(kind, x.prints.Of(class, e.Type, err.Error()), err, now)
	d.Version, d.BlocksKey = x.o.Version, !x.o.FreeKey
	return d
}

// rejection is e as a dead letter that was rejected. Its verdict stays with its mark.
func (x *Executor[TTx]) rejection(e *partition.Entry, no *skald.RejectedError, code int32) *store.Park {
	k, now := x.Parcel(e), x.o.Now()
	k.Call = nil                                                // who redrives it asks anew
	k.Marked, k.Step, k.MostRows, k.MostBytes = true, nil, 0, 0 // the verdict says how its step stands
	text := no.Error()
	if code != 0 {
		text = fmt.Sprintf("rejected with code %d: %v", code, no.Err)
	}
	x.failed(k, text, now, false)
	k.Dead = x.death(failure.KindRejected, failure.KindRejected, e, errors.New(text), now)
	k.Dead.BlocksKey = x.o.RejectionsHold
	return k
}

func recordOf(k *store.Park) failure.Record {
	return failure.Record{Attempts: k.Attempts, First: k.First, Last: k.Last}
}

// failed notes a failed attempt in k.
func (x *Executor[TTx]) failed(k *store.Park, why string, now time.Time, charged bool) failure.Record {
	r := recordOf(k)
	r.Add(store.Failure{At: now, Why: why, Host: x.o.Host}, charged)
	k.Attempts, k.First, k.Last = r.Attempts, r.First, r.Last
	return r
}
