package sagatest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/internal/saga/plan"
)

// deploy replaces the definition by the newer one if the run has reached the point in the schedule. It
// returns errRefused if the newer definition cannot run the saga.
func (r *sagaRun[TTx]) deploy() error {
	if !r.mixed || r.d == r.c.d || len(r.log)+1 < r.faults[0].At {
		return nil
	}
	var m plan.Mapping
	for _, mapping := range r.c.d.Mappings {
		if mapping.From == r.d.Hash {
			m = mapping
		}
	}
	s, err := plan.Move(r.d.Plan.Graph, r.c.d.Plan.Graph, m, r.state)
	if err != nil {
		return errRefused
	}
	r.state, r.d = s, r.c.d
	r.feed(plan.Event{What: plan.Tick})
	return nil
}

// distinct returns an error if the rival has the key of the first saga.
func (c *checker[TTx]) distinct() error {
	if c.rival == nil {
		return nil
	}
	key, _, err := c.d.Encode(c.rival)
	if err != nil {
		return fmt.Errorf("the input of Rival: %w", err)
	}
	if own, _, err := c.d.Encode(c.in); err == nil && own == key {
		return fmt.Errorf("the input of Rival has the key of the saga, %q: give it another one", key)
	}
	return nil
}

// rival begins another saga before a function of this step, and runs this rival to its end. If the rival
// waits for entities of the first saga, it ends later. If the step is a Lock, the rival pauses when it
// holds its own entities. Then the first saga waits, or the rival ends later.
func (r *sagaRun[TTx]) rival(step string) {
	r.other = r.newRival()
	if err := r.other.start(r.c.rival, "00000000-0000-7000-8000-000000000002"); err != nil {
		r.noteRivalEnd(err)
		return
	}
	node, _ := r.d.Plan.Step(step)
	r.continueRival(func() bool { return node.Kind == plan.Lock && r.other.hasEntities() })
}

func never() bool { return false }

// continueRival runs the rival until it has ended, waits in a queue, or the function stop returns true.
func (r *sagaRun[TTx]) continueRival(stop func() bool) {
	if r.other == nil || r.rivalDone != nil {
		return
	}
	r.other.checkLock()
	err := r.other.continueRun(stop)
	switch {
	case errors.Is(err, errInLine):
		r.addNote("the rival waits in line")
	case err != nil || r.other.state.Status.Final():
		r.noteRivalEnd(err)
	default:
		r.addNote("the rival holds entities")
	}
}

// noteRivalEnd records the end of the rival, and its failures.
func (r *sagaRun[TTx]) noteRivalEnd(err error) {
	if r.broken = append(r.broken, r.other.broken...); err != nil {
		r.broken = append(r.broken, "the rival: "+err.Error())
	}
	done := r.other.state.Status == plan.Done
	r.rivalDone = &done
}

// newRival returns a run of another saga on the database of r.
func (r *sagaRun[TTx]) newRival() *sagaRun[TTx] {
	return &sagaRun[TTx]{c: r.c, d: r.c.d, db: r.db, lines: r.lines, now: r.now, own: map[string]int{},
		met: map[source]bool{}}
}

// inTurn runs sagas one after the other, and records the data that they leave. In the list order, 0 is the
// first saga and 1 is the rival.
func (c *checker[TTx]) inTurn(order ...int) error {
	r := &sagaRun[TTx]{c: c, d: c.d}
	if err := r.begin(); err != nil {
		return err
	}
	var done [2]bool
	for _, n := range order {
		one := r.newRival()
		if err := one.run([]any{c.in, c.rival}[n],
			fmt.Sprintf("00000000-0000-7000-8000-00000000000%d", n+1)); err != nil {
			return err
		}
		done[n] = one.state.Status == plan.Done
	}
	view, err := r.view()
	if err == nil && !slices.Contains(c.serial[done], view) {
		c.serial[done] = append(c.serial[done], view)
	}
	return err
}

var errRefused = errors.New("sagatest: the newer definition refuses the saga")
