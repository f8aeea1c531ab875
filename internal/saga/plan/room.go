package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A saga keeps so much and no more, and how it fails, turns back and is told so has to be kept, too. So an
// event that brings data is refused where not all that may follow without data would have room. That is known
// beforehand: a run grows by its times and counts alone, errors and the times that nothing is decided by give
// way to those (Lean), and there is a reserve for what a state has once.

// MaxState is how large a state may be, in bytes as JSON.
const MaxState = 900 << 10

const (
	// reserve is for the cause (a reason of MaxError bytes and two names of 255, as JSON six for each:
	// 10 KiB), the saga's own fields (1 KiB), errors as Lean leaves them (12 KiB), and ofUndo.
	reserve = 48 << 10
	ofUndo  = 24 << 10 // what is noted of the one undo that is under way

	leanErrors = 2 << 10 // bytes of errors that give no way
	leanError  = 256     // of one of them

	// without names and data: phase, attempts, free ones, crashes, and when it is due or that it is stuck
	ofRun        = 172
	ofSent       = 32 // that it was sent, and how often
	ofOccurrence = 16 // the field without its text, as of the others
	ofAs         = 8
	ofOutput     = 10
	ofMemo       = 8
	ofError      = 11
	ofEarly      = 48
	ofEnded      = 64 // what a child puts out beside its key, which is noted when it is sent
	ofAll        = ofRun + ofSent + ofOccurrence + ofAs + ofOutput + ofMemo + ofEnded
	asJSON       = 6 // bytes that one byte of a text may be
)

// A TooLargeError refuses a state that no store keeps, or one that would leave too little free.
type TooLargeError struct {
	Bytes int
	Free  bool // counted with what is to stay free
}

func (e *TooLargeError) Error() string {
	with := ""
	if e.Free {
		with = " and what its failures and undos may add"
	}
	return fmt.Sprintf("the saga's state with all outputs%s would be %d bytes, at most %d are kept: keep large outputs in tables "+
		"of yours, and their keys in the saga", with, e.Bytes, MaxState)
}

// Room is nil where a state leaves enough free, else a *TooLargeError.
func (p *Plan) Room(s State) error {
	w := work{p: p, s: s}
	if n := w.most(); n > MaxState {
		return &TooLargeError{n, true}
	}
	return nil
}

// Large is why the outcome of an event is TooLarge.
func (p *Plan) Large(s State, e Event, now time.Time) error {
	c := p.Course(s, now)
	c.Take(e)
	return c.Large()
}

// Large is why the outcome of the last event is TooLarge.
func (c *Course) Large() error { return &TooLargeError{c.refused, true} }

// brings is how much an event may add to a state beyond what that has room for; 0: nothing.
func (w *work) brings(e Event) (n int) {
	if step, _ := w.p.Step(e.Step); step.Kind == Child && (e.What == Succeeded || e.What == UndoSent) {
		return 0 // the engine's own, of the child's name
	}
	if len(e.Output) > 0 && (e.What == Succeeded || e.What == Signal || e.What == Complete) {
		n += ofEarly + asJSON*(len(e.Output)+len(e.Name)+len(e.Occurrence))
	}
	if len(e.Memo) > 0 {
		n += ofMemo + asJSON*len(e.Memo)
	}
	for _, occurrence := range e.Occurrences {
		n += ofAll + asJSON*(len(e.Step)+maxName+len(occurrence))
	}
	return n
}

// fits tells whether n more have room for sure.
func (c *Course) fits(n int) bool {
	if c.most == 0 {
		if c.most = c.w.atMost(); c.most+n > MaxState {
			c.most = c.w.most()
		}
	}
	if c.most+n > MaxState {
		return false
	}
	c.most += n
	return true
}

// takeData takes an event that may bring too much.
func (c *Course) takeData(e Event) Outcome {
	was, changed := c.w, c.changed
	c.w.s.Runs = slices.Clone(c.w.s.Runs)
	out := c.takeAny(e)
	if !out.Changed() {
		return out
	}
	most := c.w.most()
	if e.What == UndoSent {
		most -= ofUndo
	}
	if most <= MaxState {
		c.most = most
		return out
	}
	c.w, c.changed, c.refused = was, changed, most
	return TooLarge
}

// most is how large the state may become without data.
func (w *work) most() int {
	n := reserve
	for _, d := range w.s.Early {
		n += ofEarly + textBytes(d.Name) + textBytes(d.Occurrence) + dataBytes(d.Data)
	}
	begun := make([]bool, len(w.p.Graph.Steps))
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		kind := Kind("")
		if at, known := w.p.index[r.Step]; known {
			kind, begun[at] = w.p.Graph.Steps[at].Kind, true
		}
		n += ofKind(kind) + textBytes(r.Step) + dataBytes(r.Output) + dataBytes(r.Memo)
		if kind == Child && r.Output == nil {
			n += ofEnded
		}
		for _, field := range []struct{ bytes, own int }{{textBytes(r.As), ofAs},
			{textBytes(r.Occurrence), ofOccurrence},
			{len(r.Output), ofOutput}, {len(r.Memo), ofMemo}} {
			if field.bytes > 0 {
				n += field.own
			}
		}
		n += textBytes(r.As) + textBytes(r.Occurrence)
	}
	for i, step := range w.p.Graph.Steps {
		if !begun[i] {
			n += ofKind(step.Kind) + ofAs + 2*textBytes(step.Name) + asJSON
		}
	}
	return n
}

func ofKind(kind Kind) int {
	if kind == Do || kind == Wait {
		return ofRun
	}
	return ofRun + ofSent
}

// atMost is a bound of most that costs no look at any byte.
func (w *work) atMost() int {
	n := 0
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		n += len(r.Step) + len(r.As) + len(r.Occurrence) + len(r.Output) + len(r.Memo)
	}
	for i := range w.s.Early {
		d := &w.s.Early[i]
		n += len(d.Name) + len(d.Occurrence) + len(d.Data)
	}
	for i := range w.p.Graph.Steps {
		n += 2*len(w.p.Graph.Steps[i].Name) + 1
	}
	return reserve + ofAll*(len(w.s.Runs)+len(w.p.Graph.Steps)) + ofEarly*len(w.s.Early) + asJSON*n
}

// textBytes is how long a text is as JSON, without its quotes.
func textBytes(s string) int {
	if !utf8.ValidString(s) {
		return asJSON * len(s)
	}
	n := dataBytes([]byte(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += asJSON - 1
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}

// dataBytes is how long JSON is within other JSON.
func dataBytes(data []byte) int {
	n := len(data)
	for _, c := range data {
		switch c {
		case '<', '>', '&':
			n += asJSON - 1
		case 0xE2: // a line separator may follow
			n += asJSON - 3
		}
	}
	return n
}

// Lean is s with what gives way where a state is large: when its runs came to their phases, and most of their
// errors. Those of runs that are stuck stay longest.
func (s State) Lean() State {
	s.Runs = slices.Clone(s.Runs)
	left := leanErrors
	for _, stuck := range []bool{true, false} {
		for i := range s.Runs {
			r := &s.Runs[i]
			if r.Stuck != stuck {
				continue
			}
			r.At = time.Time{}
			if r.Error != "" {
				r.Error = strings.ToValidUTF8(r.Error[:min(len(r.Error), leanError, max(0, left-ofError))],
					"")
			}
			if r.Error != "" {
				left -= ofError + len(r.Error)
			}
		}
	}
	return s
}
