package sagatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/skald-go/skald"
)

var (
	// ErrCrashed is the error of all calls of a process after its crash. Drivers report it as an outage.
	ErrCrashed = errors.New("sagatest: the process has crashed")
	// ErrInjected is the error of an I/O that took effect. Drivers report it as an outage.
	ErrInjected = errors.New("sagatest: injected: no answer came")
)

// Process is a process of a World. After each crash it has a new session.
type Process struct {
	Name string
	// Down is the time for which the process is down after a crash, by the world's clock. Default: until its
	// next turn.
	Down time.Duration

	w        *World
	build    func(p *Process) error
	steppers []skald.Stepper
	dead     bool
	back     time.Time
	open     map[any]func() // functions that end open transactions, subscriptions and sessions
	order    []any
	err      error // error of the last turn
	last     int   // index of the current I/O, which may be within another I/O

	paused bool
	yield  func(struct{}) bool // set in a turn that may pause
	resume func() (struct{}, bool)
	stop   func()
	busy   bool
}

// Step adds steppers to this session. Each turn steps them in this order.
func (p *Process) Step(steppers ...skald.Stepper) { p.steppers = append(p.steppers, steppers...) }

// OnCrash adds a function that runs when this session crashes. It must close open resources, as the operating
// system would.
func (p *Process) OnCrash(f func()) { p.opened(new(int), f) }

// IO performs other I/O, such as the commit of a transaction or a request. Explore injects faults at this
// I/O, as it does at calls of stores and brokers.
func (p *Process) IO(act string, do func() error) error {
	return p.io(call{act: act, effect: true}, do)
}

func (p *Process) opened(what any, end func()) {
	p.open[what] = end
	p.order = append(p.order, what)
}

func (p *Process) closed(what any) { delete(p.open, what) }

// call describes one I/O.
type call struct {
	act    string
	note   func() string
	effect bool
	parts  int  // number of messages or effects
	keyed  bool // the parts are messages
}

// io performs one I/O, or injects the fault for it.
func (p *Process) io(c call, do func() error) error {
	if p.dead {
		return ErrCrashed
	}
	mode, outer := p.count(c), p.last
	p.last = len(p.w.log) - 1
	defer func() { p.last = outer }()
	switch mode {
	case CrashBefore:
		p.crash()
		return ErrCrashed
	case CrashAfter:
		_ = do() // the process dies before it gets the result
		p.crash()
		return ErrCrashed
	case ErrorAfter, PartFirst, PartLast:
		if err := do(); err != nil {
			return err
		}
		return ErrInjected
	case Pause:
		if p.yield != nil {
			p.paused = true
			if !p.yield(struct{}{}) {
				p.crash()
				return ErrCrashed
			}
		}
	}
	return do()
}

// nextFault returns the fault for the next I/O, or "".
func (p *Process) nextFault() Mode { return p.w.plan.at(len(p.w.log) + 1) }

// count adds an I/O to the log, and returns its fault.
func (p *Process) count(c call) Mode {
	w := p.w
	e := event{turn: w.turns, effect: c.effect, first: c.parts > 1, last: c.parts > 1 && c.keyed}
	mode := p.nextFault()
	if mode == PartFirst && !e.first || mode == PartLast && !e.last {
		mode = ""
	}
	if w.tracing {
		e.text = p.Name + ": " + c.act
		if c.note != nil {
			e.text += " " + c.note()
		}
		if mode != "" {
			e.text += "   ← " + string(mode)
		}
	}
	w.log = append(w.log, e)
	return mode
}

// addResult adds the result of the current I/O to the log.
func (p *Process) addResult(effect bool, note string, args ...any) {
	e := &p.w.log[p.last]
	e.effect = effect
	if p.w.tracing && note != "" {
		e.text += fmt.Sprintf(note, args...)
	}
}

// crash ends this session. It closes open resources as kill -9 would, and begins with the latest.
func (p *Process) crash() {
	p.dead, p.back = true, p.w.now.Add(p.Down)
	for i := len(p.order) - 1; i >= 0; i-- {
		if end := p.open[p.order[i]]; end != nil {
			end()
		}
	}
	clear(p.open)
	p.order, p.steppers = nil, nil
}

// end ends the process at the end of the run.
func (p *Process) end() {
	if p.stop != nil {
		p.stop()
		p.resume, p.stop = nil, nil
	}
	if !p.dead {
		p.crash()
	}
}

// stepAll steps each stepper once. It first starts a session if there is none.
func (p *Process) stepAll() (busy bool) {
	if p.paused {
		return false
	}
	if p.resume == nil && !p.w.plan.pauses() {
		return p.steps()
	}
	if p.resume == nil {
		p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			p.yield = yield
			p.busy = p.steps()
			p.yield = nil
		})
	}
	if _, more := p.resume(); more {
		return true
	}
	p.resume, p.stop = nil, nil
	return p.busy
}

func (p *Process) steps() (busy bool) {
	p.err = nil
	if p.dead && !p.start() {
		return false
	}
	for _, s := range p.steppers {
		did, err := s.Step(context.Background())
		if err != nil {
			p.err = err
		}
		if p.dead {
			p.err = nil
			return true
		}
		busy = busy || did && err == nil
	}
	return busy
}

// start begins a session.
func (p *Process) start() bool {
	if p.w.now.Before(p.back) {
		return false
	}
	p.dead = false
	if err := p.build(p); err != nil {
		if !p.dead {
			p.crash()
		}
		p.err = fmt.Errorf("start: %w", err)
		return false
	}
	return !p.dead
}
