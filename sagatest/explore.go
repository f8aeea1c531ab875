package sagatest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options has the options of Explore. The zero value works.
type Options struct {
	// Modes are the faults to inject. Nil means all modes.
	Modes []Mode
	// Pairs adds schedules with two crashes. These crashes are at effects only: a crash before a read is
	// equivalent to a crash before the next effect in the same turn.
	Pairs bool
	// Sample limits the number of schedules with one fault, and the number of pairs. The selected schedules
	// are spread evenly. Default 0, which means no limit.
	Sample int
	// Seed selects the schedules of a Sample. Default for Explore: the environment variable SAGATEST_SEED, or
	// else a random number, which Explore logs. Default for Search: 0.
	Seed uint64
	// Schedules are run instead of all others, if there are any.
	Schedules []Schedule
	// Rest is the time, by the world's clock, for which all processes must be idle. Then the run ends and the
	// invariants are checked. A paused process continues before that. Default 8 s, which is more than twice
	// the lease of a relay.
	Rest time.Duration
	// Failures is the number of failing schedules after which Explore stops. Default 1.
	Failures int
}

func (o *Options) orDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Modes == nil {
		d.Modes = modes()
	}
	if d.Rest <= 0 {
		d.Rest = 8 * time.Second
	}
	d.Failures = max(1, d.Failures)
	return d
}

// Report is the result of Search.
type Report struct {
	IOs       int // number of I/Os of the run without a fault
	Schedules int // number of runs
	Failures  []Failure
}

func (r Report) String() string {
	return fmt.Sprintf("%d schedules of %d I/Os, %d failures", r.Schedules, r.IOs, len(r.Failures))
}

// Failure is a schedule that breaks an invariant.
type Failure struct {
	Schedule Schedule
	Broken   []string // "name: why"
	Trace    string   // a line for each I/O of the run
}

// T is the part of *testing.T that Explore uses.
type T interface {
	Helper()
	Name() string
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Replay is the environment variable with a schedule. If it is set, Explore and Check run only this schedule.
const Replay = "SAGATEST_REPLAY"

// SeedVariable is the environment variable with the default for Options.Seed.
const SeedVariable = "SAGATEST_SEED"

// Explore runs the world of build without a fault. Then it runs it again for each I/O of that run and each
// Mode, with this one fault. It checks the invariants in each run. It reports each failure with its trace,
// and with a command that repeats the run: SAGATEST_REPLAY='crash-after@17' go test -run …
//
// Each call of build must set up an equal world, so use the clock and the ids of the World.
func Explore(t T, build func(w *World) error, o *Options) Report {
	t.Helper()
	if text, ok := os.LookupEnv(Replay); ok {
		return replay(t, build, o, text)
	}
	seeded := o.orDefaults()
	if err := seeded.seed(); err != nil {
		t.Fatalf("explore: %v", err)
	}
	r, err := Search(t.Context(), build, &seeded)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s\nrun it again: %s\n%s", strings.Join(f.Broken, "\n"),
			line(t.Name(), f.Schedule), f.Trace)
	}
	if seeded.Sample > 0 {
		t.Logf("the sample is that of %s=%d", SeedVariable, seeded.Seed)
	}
	t.Logf("%v", r)
	return r
}

// seed sets Seed, if it is 0, from the environment or to a random number.
func (o *Options) seed() (err error) {
	if o.Seed != 0 {
		return nil
	}
	text, ok := os.LookupEnv(SeedVariable)
	if !ok {
		o.Seed = uint64(rand.Uint32())
		return nil
	}
	if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
		return fmt.Errorf("%s must be a number: %w", SeedVariable, err)
	}
	return nil
}

func line(test string, s Schedule) string {
	text := s.String()
	if text == "" {
		text = "none"
	}
	parts := strings.Split(test, "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	return fmt.Sprintf("%s='%s' go test -count=1 -run '%s'", Replay, text, strings.Join(parts, "/"))
}

func replay(t T, build func(w *World) error, o *Options, text string) Report {
	t.Helper()
	s, err := ParseSchedule(text)
	if err != nil {
		t.Fatalf("%s: %v", Replay, err)
	}
	w, err := runOnce(build, s, o.orDefaults().Rest, true)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	t.Logf("schedule %s\n%s", text, w.trace())
	for _, f := range s {
		if f.At > len(w.log) || !w.log[f.At-1].meets(f.Mode) {
			t.Errorf("%s: the fault %v never came up: this run has %d I/Os", Replay, Schedule{f}, len(w.log))
		}
	}
	for _, b := range w.broken {
		t.Errorf("%s", b)
	}
	r := Report{IOs: len(w.log), Schedules: 1}
	if len(w.broken) > 0 {
		r.Failures = []Failure{{s, w.broken, w.trace()}}
	}
	return r
}

// runOnce builds a world and runs it once.
func runOnce(build func(w *World) error, s Schedule, rest time.Duration, tracing bool) (*World, error) {
	w := &World{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), plan: s, tracing: tracing}
	defer func() {
		for i := len(w.cleanup) - 1; i >= 0; i-- {
			w.cleanup[i]()
		}
	}()
	if err := build(w); err != nil {
		return nil, fmt.Errorf("build the world: %w", err)
	}
	w.run(rest)
	return w, nil
}

// Search is like Explore, but returns the failures instead of reporting them to a test. It returns an error
// if build fails.
func Search(ctx context.Context, build func(w *World) error, o *Options) (Report, error) {
	s := &search{ctx: ctx, build: build, o: o.orDefaults()}
	if len(s.o.Schedules) > 0 {
		s.given()
		return s.r, s.err
	}
	base := s.try(nil)
	if base == nil || len(s.r.Failures) > 0 {
		return s.r, s.err
	}
	s.r.IOs = len(base.log)
	s.singles(base.log)
	if s.o.Pairs {
		s.pairs(base.log)
	}
	return s.r, s.err
}

type search struct {
	ctx   context.Context
	build func(w *World) error
	o     Options
	r     Report
	err   error
}

func (s *search) over() bool {
	return s.err != nil || len(s.r.Failures) >= s.o.Failures || s.ctx.Err() != nil
}

// try runs one schedule. If it fails, try runs it again with a trace.
func (s *search) try(plan Schedule) *World {
	w, err := runOnce(s.build, plan, s.o.Rest, false)
	if err != nil {
		s.err = err
		return nil
	}
	s.r.Schedules++
	if len(w.broken) == 0 {
		return w
	}
	f := Failure{Schedule: plan, Broken: w.broken}
	if again, err := runOnce(s.build, plan, s.o.Rest, true); err == nil {
		f.Trace = again.trace()
		if len(again.broken) == 0 {
			f.Broken = append(f.Broken, "(a second run did not fail: the world is not the same each time)")
		}
	}
	s.r.Failures = append(s.r.Failures, f)
	return w
}

func (s *search) given() {
	for _, plan := range s.o.Schedules {
		if s.over() {
			return
		}
		if w := s.try(plan); w != nil {
			s.r.IOs = len(w.log)
		}
	}
}

func (s *search) singles(log []event) {
	var all []Fault
	for i, e := range log {
		for _, m := range s.o.Modes {
			if e.meets(m) {
				all = append(all, Fault{m, i + 1})
			}
		}
	}
	for i := range all {
		if s.over() {
			return
		}
		if s.sampled(i, len(all)) {
			s.try(Schedule{all[i]})
		}
	}
}

// meets reports whether a mode can be injected at an I/O.
func (e event) meets(m Mode) bool {
	switch m {
	case PartFirst:
		return e.first
	case PartLast:
		return e.last
	case Pause:
		return e.effect
	}
	return true
}

// sampled reports whether schedule i of total is in the sample. The sample is evenly spread, with an offset
// from the seed.
func (s *search) sampled(i, total int) bool {
	if s.o.Sample <= 0 || total <= s.o.Sample {
		return true
	}
	i = (i + int(s.o.Seed%uint64(total))) % total
	return (i+1)*s.o.Sample/total > i*s.o.Sample/total
}

// pairs runs schedules with each crash of base and each later crash.
func (s *search) pairs(base []event) {
	first := crashes(base, 0)
	total, i := len(first)*len(first)/2, 0
	for _, a := range first {
		if s.over() {
			return
		}
		w, err := runOnce(s.build, Schedule{a}, s.o.Rest, false)
		if err != nil {
			s.err = err
			return
		}
		for _, b := range crashes(w.log, a.At) {
			if s.over() {
				return
			}
			if s.sampled(i, total) {
				s.try(Schedule{a, b})
			}
			i++
		}
	}
}

// crashes returns the crashes after the I/O with this number that make a difference. These are crashes
// before each effect, and after the last effect of a turn.
func crashes(log []event, number int) (out []Fault) {
	for i := number; i < len(log); i++ {
		if !log[i].effect {
			continue
		}
		out = append(out, Fault{CrashBefore, i + 1})
		if !effectFollows(log, i) {
			out = append(out, Fault{CrashAfter, i + 1})
		}
	}
	return out
}

// effectFollows reports whether another effect follows in the same turn.
func effectFollows(log []event, i int) bool {
	for j := i + 1; j < len(log) && log[j].turn == log[i].turn; j++ {
		if log[j].effect {
			return true
		}
	}
	return false
}
