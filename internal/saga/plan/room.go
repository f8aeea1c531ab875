package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The size of a state is limited, and a state must always have room for later failures and for turning back.
// So Take refuses an event with data if later events without data might not fit.
//
// The size of those later events is bounded: a run grows only by its times and counts. If the state becomes
// too large, Lean drops failures, errors and informative times. A reserve covers the fields that a state has
// once.

// MaxState is the limit of a state's size as JSON, in bytes.
const MaxState = 900 << 10

const (
	// reserve is the size of the following fields. The cause has a reason of MaxError bytes and two names of
	// 255; as JSON each byte may need six: 10 KiB. The saga's own fields need 1 KiB, and errors as Lean
	// leaves them 12 KiB. The rest is ofUndo.
	reserve = 48 << 10
	ofUndo  = 24 << 10 // data about the undo in progress; there is at most one

	leanErrors = 2 << 10 // bytes of all errors that Lean keeps
	leanError  = 256     // bytes of one error that Lean keeps

	// ofRun and the constants from here to ofAll are sizes of JSON fields without their values. ofRun is the
	// size of a run without names and data: phase, attempts, free attempts, crashes, and the due time or
	// stuck.
	ofRun        = 172
	ofSent       = 32 // Sent and Sends
	ofOccurrence = 16
	ofAs         = 8
	ofOutput     = 10
	ofMemo       = 8
	ofError      = 11
	ofEarly      = 48
	ofEnded      = 64 // the output of a child without its key, which the Memo contains already
	ofAll        = ofRun + ofSent + ofOccurrence + ofAs + ofOutput + ofMemo + ofEnded
	asJSON       = 6 // longest encoding of one byte of a text
)

// TooLargeError is the error of a state that is too large, or that would leave too little room for later
// events.
type TooLargeError struct {
	Bytes int
	Free  bool // Bytes includes the room for later events
}

func (e *TooLargeError) Error() string {
	with := ""
	if e.Free {
		with = " and what its failures and undos may add"
	}
	return fmt.Sprintf("the saga's state with all outputs%s would be %d bytes, at most %d are allowed: store large outputs in tables "+
		"of yours, and their keys in the saga", with, e.Bytes, MaxState)
}

// Room returns a *TooLargeError if a state leaves too little room for later events.
func (p *Plan) Room(s State) error {
	w := work{p: p, s: s}
	if n := w.maxSize(); n > MaxState {
		return &TooLargeError{n, true}
	}
	return nil
}

// Large returns the error for an event with the outcome TooLarge.
func (p *Plan) Large(s State, e Event, now time.Time) error {
	c := p.Course(s, now)
	c.Take(e)
	return c.Large()
}

// Large returns the error for the last event, if its outcome is TooLarge.
func (c *Course) Large() error { return &TooLargeError{c.refused, true} }

// brings returns an upper bound of the bytes that the data of an event adds to a state.
func (w *work) brings(e Event) (n int) {
	if step, _ := w.p.Step(e.Step); step.Kind == Child && (e.What == Succeeded || e.What == UndoSent) {
		return 0 // the data is the child's key, which has room already
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

// reserve reports whether there is certainly room for n more bytes. If so, it reserves them.
func (c *Course) reserve(n int) bool {
	if c.most == 0 {
		if c.most = c.w.atMost(); c.most+n > MaxState {
			c.most = c.w.maxSize()
		}
	}
	if c.most+n > MaxState {
		return false
	}
	c.most += n
	return true
}

// takeData applies an event with data, and reverts it if the state then has too little room.
func (c *Course) takeData(e Event) Outcome {
	was, changed := c.w, c.changed
	c.w.s.Runs = slices.Clone(c.w.s.Runs)
	out := c.takeAny(e)
	if !out.Changed() {
		return out
	}
	most := c.w.maxSize()
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

// maxSize returns the size that a state can reach by events without data.
func (w *work) maxSize() int {
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

// atMost returns an upper bound of most. It is cheaper to compute.
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

// textBytes returns the length of a text as JSON, without its quotes.
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

// dataBytes returns the length of JSON data within other JSON, where encoding/json escapes some characters.
func dataBytes(data []byte) int {
	n := len(data)
	for _, c := range data {
		switch c {
		case '<', '>', '&':
			n += asJSON - 1
		case 0xE2: // the first byte of a line separator
			n += asJSON - 3
		}
	}
	return n
}

// Lean returns s without informative data: without the failures and the times of phases, and with shorter
// errors. It keeps the errors of stuck runs first.
func (s State) Lean() State {
	s.Runs, s.Failures = slices.Clone(s.Runs), nil
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
