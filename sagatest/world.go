package sagatest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// World is one run of Explore. It has databases, a broker, processes that perform I/O on these, and a clock
// that only the run moves. A build function sets up the world. One thread runs everything in it.
type World struct {
	now       time.Time
	ids       uint64
	processes []*Process
	always    []check
	finally   []check
	cleanup   []func()

	plan    Schedule
	tracing bool
	turns   int
	log     []event
	broken  []string
}

type check struct {
	name string
	run  func() error
}

// event is one I/O in the log.
type event struct {
	turn        int  // number of the turn
	effect      bool // the I/O changed something outside the process
	first, last bool // PartFirst or PartLast can be injected
	text        string
}

const (
	round     = time.Millisecond       // time of a round with work
	slowRound = 100 * time.Millisecond // time of a round in which a process is paused
	idle      = time.Second            // time of a round without work
	mostRound = 10_000
	mostPause = 100 // rounds after which a paused process continues, even if the others are not idle
)

// Now returns the time of the world's clock. Use it as Now of databases, outboxes, relays and inboxes.
func (w *World) Now() time.Time { return w.now }

// NewID returns a UUID of version 7. The ids are the same in each run.
func (w *World) NewID(now time.Time) string {
	w.ids++
	ms := uint64(now.UnixMilli())
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, w.ids)
}

// Process adds a process. It calls the function build for each session of the process. This function must
// make the components again, over stores and brokers that CrashDriver and CrashBroker wrap, and pass them
// to p.Step. If build returns an error, the start has failed, and is retried.
func (w *World) Process(name string, build func(p *Process) error) *Process {
	p := &Process{w: w, Name: name, build: build, dead: true, open: map[any]func(){}}
	w.processes = append(w.processes, p)
	return p
}

// Always adds an invariant that must hold after each turn of each process.
func (w *World) Always(name string, holds func() error) {
	w.always = append(w.always, check{name, holds})
}

// Finally adds an invariant that must hold when the world is idle.
func (w *World) Finally(name string, holds func() error) {
	w.finally = append(w.finally, check{name, holds})
}

// Cleanup adds a function to be called at the end of the run.
func (w *World) Cleanup(f func()) { w.cleanup = append(w.cleanup, f) }

// run steps the processes until all were idle for the duration idleTime. Then it checks the invariants.
func (w *World) run(idleTime time.Duration) {
	quiet, paused := time.Duration(0), 0
	for n := 0; quiet <= idleTime && len(w.broken) == 0; n++ {
		busy, troubled := w.round()
		if busy || troubled {
			quiet = 0
		}
		step := round
		if w.paused() {
			step, paused = slowRound, paused+1
		}
		if !busy {
			step, quiet = idle, quiet+idle
		}
		w.now = w.now.Add(step)
		if (quiet > idleTime || paused > mostPause) && w.wake() {
			quiet, paused = 0, 0
		}
		if n > mostRound {
			w.broken = append(w.broken, fmt.Sprintf("rest: there is still work after %d rounds%s", n,
				w.failing()))
		}
	}
	if len(w.broken) == 0 {
		w.conclude()
	}
	for _, p := range w.processes {
		p.end()
	}
}

// round gives each process a turn. It returns troubled=true if a process is down, or had an error.
func (w *World) round() (busy, troubled bool) {
	for _, p := range w.processes {
		w.turns++
		busy = p.stepAll() || busy
		troubled = troubled || p.dead || p.err != nil
		for _, c := range w.always {
			w.hold(c)
		}
	}
	return busy, troubled
}

func (w *World) paused() bool {
	return slices.ContainsFunc(w.processes, func(p *Process) bool { return p.paused })
}

// wake lets the paused processes continue.
func (w *World) wake() (some bool) {
	for _, p := range w.processes {
		if p.paused {
			p.paused, some = false, true
		}
	}
	return some
}

func (w *World) conclude() {
	for _, c := range w.finally {
		w.hold(c)
	}
}

func (w *World) failing() (out string) {
	for _, p := range w.processes {
		if p.err != nil {
			out += fmt.Sprintf("; %s fails: %v", p.Name, p.err)
		}
	}
	return out
}

func (w *World) hold(c check) {
	if err := c.run(); err != nil {
		w.broken = append(w.broken, c.name+": "+err.Error())
	}
}

// trace returns a line for each I/O.
func (w *World) trace() string {
	var b strings.Builder
	for i, e := range w.log {
		fmt.Fprintf(&b, "%5d  %s\n", i+1, e.text)
	}
	return b.String()
}
