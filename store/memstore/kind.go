package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

type kindKey struct {
	consumer string
	store.Kind
}

// beat writes what a process of a consumer says of itself, and answers with the types that were noted before.
func (d *database) beat(consumer string, b store.Beat) (out []store.Kind) {
	now := d.now()
	for key, at := range d.kinds {
		switch {
		case key.consumer != consumer:
		case b.Forget > 0 && at.Before(now.Add(-b.Forget)):
			delete(d.kinds, key)
		default:
			out = append(out, key.Kind)
		}
	}
	for _, k := range b.Own {
		d.kinds[kindKey{consumer, k}] = now
	}
	if len(b.Own) > 0 {
		d.heard(consumer, now, b.Progress)
	}
	slices.SortFunc(out,
		func(a, b store.Kind) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic),
				cmp.Compare(a.Type, b.Type))
		})
	return out
}

// A consumerRow is when a consumer was last heard of, and when it last got on.
type consumerRow struct{ heard, progress time.Time }

func (d *database) heard(consumer string, now time.Time, progress bool) {
	c, known := d.consumers[consumer]
	if c.heard = now; progress || !known {
		c.progress = now
	}
	d.consumers[consumer] = c
}

// left lists the types of messages that were left to another build, and wait.
func (d *database) left() []store.LeftKind {
	out := d.kept.Left()
	for i := range out {
		if at, noted := d.kinds[kindKey{out[i].Consumer, out[i].Kind}]; noted {
			out[i].Heard = d.now().Sub(at)
		}
	}
	return out
}
