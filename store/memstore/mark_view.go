package memstore

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// view has the marks as one transaction reads them.
type view struct {
	tableView[markKey, markRow]
	marks *markTable
}

// Take inserts m and returns Fresh, or returns the verdict of the existing mark. It returns TooOld if
// retention may have deleted the mark.
func (v *view) Take(m store.Mark, now time.Time) store.Verdict {
	key := keyOf(&m)
	if was, there := v.Get(key); there && was.counts(m.Keep, now) {
		return was.verdict(now)
	}
	if !m.Held && v.marks.TooOld(key) {
		return store.Verdict{Outcome: store.TooOld}
	}
	m.Reason, m.Code, m.Result, m.Emitted = column.ClipReason(m.Reason), 0, "", ""
	m.Headers = ""
	m.KeyOrder, m.Key, m.Attempts = store.Anytime, nil, 0
	if m.Outcome != store.Rejected {
		m.Reason = ""
	}
	v.marks.arrival++
	row := markRow{Mark: m, Arrival: v.marks.arrival, at: countedFrom(m.ID, now)}
	if m.Keep > 0 {
		row.until = now.Add(m.Keep)
	}
	row.Keep = 0
	v.Put(key, row)
	return store.Verdict{}
}

// Answer stores the answer of the message m. It returns store.ErrLost if the mark of m does not exist or
// already has an answer.
func (v *view) Answer(m store.Mark) error {
	was, there := v.Get(keyOf(&m))
	if !there || was.answered || was.Outcome != store.Done && was.Outcome != m.Outcome {
		return fmt.Errorf("answer %s: %w", m.ID, store.ErrLost)
	}
	was.answered, was.Outcome, was.Code, was.Result = true, m.Outcome, m.Code, m.Result
	was.Emitted, was.Headers = m.Emitted, m.Headers
	if m.Outcome == store.Rejected {
		was.Reason = column.ClipReason(m.Reason)
	}
	v.Put(keyOf(&m), was)
	return nil
}
