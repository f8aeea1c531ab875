package plan

import "slices"

const endedReason = "a function ended the transaction in which it ran with others, so its writes may be committed: " +
	"check them before you decide how to continue"

// endedWith makes the members of a transaction stuck after a function ended it. Their writes may be
// committed. A member that has not begun becomes stuck when it begins.
func (w *work) endedWith(members []Member) {
	for _, m := range members {
		i := w.runOf(m)
		if !m.Undo && i >= 0 && w.s.Runs[i].Phase == Ready {
			w.s.Runs[i].Unsure = true
			w.stick(&w.s.Runs[i], endedReason)
			continue
		}
		w.s.Ended = append(slices.Clip(w.s.Ended), m)
	}
}

// stickEnded makes a run that begins stuck if it is in Ended. If undo is true, this is about the undo of the
// run.
func (w *work) stickEnded(r *Run, undo bool) {
	i := slices.Index(w.s.Ended, Member{r.Step, r.Occurrence, undo})
	if i < 0 {
		return
	}
	w.s.Ended = slices.Delete(slices.Clone(w.s.Ended), i, i+1)
	r.Unsure = !undo
	w.stick(r, endedReason)
}

// beginEnded begins all runs in Ended as stuck runs, because the saga turns back. An operator must settle
// them before anything is undone.
func (w *work) beginEnded() {
	members := w.s.Ended
	w.s.Ended = nil
	for _, m := range members {
		if _, known := w.p.index[m.Step]; !known || m.Undo {
			continue
		}
		i := w.runOf(m)
		if i < 0 {
			i = len(w.s.Runs)
			w.s.Runs = append(w.s.Runs,
				Run{Step: m.Step, As: born(w.s.Runs, m.Step), Occurrence: m.Occurrence})
		}
		r := &w.s.Runs[i]
		r.Phase, r.Unsure = Ready, true
		w.stick(r, endedReason)
	}
}

func (w *work) runOf(m Member) int {
	return slices.IndexFunc(w.s.Runs,
		func(r Run) bool { return r.Step == m.Step && r.Occurrence == m.Occurrence })
}
