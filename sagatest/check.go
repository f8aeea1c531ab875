package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The modes of Check. Each is a fault at a point of a run. A point is a call of one of your functions, or an
// answer from outside.
const (
	Fails Mode = "fails" // the function ran, but its transaction was not committed; the step is retried
	// Rejects means that the function ran and was rolled back by skald.Reject, or that the answer was a
	// refusal.
	Rejects          Mode = "rejects"
	Dies             Mode = "dies"     // the process dies after the function ran, before the commit
	Lost             Mode = "lost"     // a request or a command took effect, but its answer is lost
	Late             Mode = "late"     // a signal or a reply arrives after its timeout
	Twice            Mode = "twice"    // a signal or a reply arrives twice
	Cancels          Mode = "cancels"  // the saga is cancelled before the function
	CancelsDuring    Mode = "overtook" // the saga is cancelled while the function runs, so its commit fails
	Deadline         Mode = "deadline" // the deadline passes before the function
	FailsPermanently Mode = "gives-up" // the function fails without a retry; an operator then retries an undo
	WithRival        Mode = "beside"   // another saga runs before the function, as far as it can; see Rival
	Deploys          Mode = "deploys"  // a newer definition continues the saga from here; see Older
	// Value selects a value from outside, by its number. The numbers count the values after the first of each
	// Signal and Reply, in the order of the terms. The last numbers are the timeouts of steps with
	// SkipOnTimeout.
	Value Mode = "value"
)

func checkModes() []Mode {
	return []Mode{Fails, Rejects, Dies, Lost, Late, Twice, Cancels, CancelsDuring, Deadline, FailsPermanently,
		WithRival, Deploys, Value}
}

// End is the result of a saga that has ended.
type End struct {
	Done bool // true if the saga is done; false if it is compensated
	Key  string
	Why  string // "rejected", "failed", "deadline" or "cancel" if the saga turned back, or ""
	Step string // the step because of which the saga turned back, or ""

	state   *plan.State
	emitted []skald.Message
}

// Output decodes the output of a step into a pointer. It returns false if the step has no output.
func (e End) Output(step, occurrence string, out any) (bool, error) {
	r, ok := e.state.Run(step, occurrence)
	if !ok || r.Output == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.Output, out)
}

// Term is an argument of Check after the definition and its input: Given, Promise, EmitsIfDone, View,
// Outside, Signal, Reply, Rival, Older, AlsoOn or WithoutPairs.
type Term interface{ term() }

type (
	given[TTx any]   func(ctx context.Context, tx TTx) error
	promise[TTx any] func(ctx context.Context, tx TTx, end End) error
	view[TTx any]    func(ctx context.Context, tx TTx) (string, error)
	outside          struct {
		reset func()
		view  func() string
	}
	rival struct{ in any }
	older struct{ d saga.Defined }

	alsoOn[TTx any] []func(ctx context.Context) (Beginner[TTx], error)
	noPairs         struct{}
)

func (given[TTx]) term()   {}
func (promise[TTx]) term() {}
func (view[TTx]) term()    {}
func (outside) term()      {}
func (rival) term()        {}
func (older) term()        {}
func (alsoOn[TTx]) term()  {}
func (noPairs) term()      {}

// Given sets a function that writes the rows that must exist before the saga starts.
func Given[TTx any](write func(ctx context.Context, tx TTx) error) Term { return given[TTx](write) }

// Promise sets a function that Check calls after each run. If it returns an error, the promise is broken.
func Promise[TTx any](holds func(ctx context.Context, tx TTx, end End) error) Term {
	return promise[TTx](holds)
}

// View sets a function that returns the relevant data of your tables, as text. A done saga must leave the
// same data as a run without a fault. A compensated saga must leave the same data as before its start. For
// the memory store, the default is all data.
//
// If a compensated saga may leave data, such as an order marked as failed, omit this data from View, and
// check it by a Promise.
func View[TTx any](read func(ctx context.Context, tx TTx) (string, error)) Term {
	return view[TTx](read)
}

// Outside sets a fake of a service that the saga calls. Check calls the function reset before each run, and
// appends the result of the function view to the data of View.
func Outside(reset func(), view func() string) Term { return outside{reset, view} }

// Rival sets the input of another saga of the same definition, which works on the same rows. Check runs this
// rival completely before each function of the first saga. The first saga then ends well, or turns back at
// each later point. The two sagas must leave the same data as if they ran one after the other. Otherwise one
// of them has lost a write of the other.
//
// If the rival needs an entity that the first saga has locked by a Lock, the rival waits and ends later.
// Before the Lock of the first saga, the first saga waits for the rival.
func Rival(in any) Term { return rival{in} }

// Older sets an earlier definition of the saga, with its functions. At each point Check moves a saga that
// began with this definition to the new one. From there the saga ends well or turns back. If the new
// definition refuses sagas, Check only counts them.
func Older(d saga.Defined) Term { return older{d} }

// AlsoOn gives CheckOn more databases, one for each function, in addition to the database of its argument
// fresh. CheckOn runs one schedule on each database at the same time, so the functions of the saga must be
// safe for concurrent use. The databases may be schemas of one server. CheckOn refuses AlsoOn together with
// Outside, because a fake is reset for one run at a time.
func AlsoOn[TTx any](fresh ...func(ctx context.Context) (Beginner[TTx], error)) Term {
	return alsoOn[TTx](fresh)
}

// WithoutPairs omits the schedules with two faults. Check still tries each single fault at each point. On a
// database server this takes a fraction of the time. Use it in a test that runs often, for example if
// testing.Short() is true.
func WithoutPairs() Term { return noPairs{} }

// Beginner begins transactions. Each store.Driver is a Beginner.
type Beginner[TTx any] interface {
	Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error)
}

// Check runs a saga repeatedly over the memory store, with one fault at each point: a step fails, an answer
// is lost, a function is repeated, the process dies, the saga is cancelled, or the deadline passes. After a
// fault that turned the saga back, it also tries a second fault at each later point.
//
// After each run the promises must hold, and View must match. One transient failure must not turn a saga back
// or leave it stuck, if the step has attempts left. Check prints each failure with a command that repeats the
// run.
//
// Check plays the participants, the children and the senders of signals. A participant replies with the
// values of Reply, refuses, does not reply in time, replies late, or replies twice. A signal arrives with the
// values of Signal, once, twice, or too late. Without these terms the value is the zero value. A child is
// done or turned back, and locks nothing. Your own functions and requests run unchanged, so your fakes must
// answer for external services.
func Check[In any](t T, d *saga.Definition[In], in In, terms ...Term) Checked {
	t.Helper()
	whole := false
	for _, term := range terms {
		_, is := term.(view[*memstore.Tx])
		whole = whole || is
	}
	if !whole {
		terms = append(slices.Clone(terms), View(func(_ context.Context, tx *memstore.Tx) (string, error) {
			var out strings.Builder
			for _, key := range tx.Keys("") {
				value, _ := tx.Get(key)
				fmt.Fprintf(&out, "%s = %s\n", key, value)
			}
			return out.String(), nil
		}))
	}
	return CheckOn(t, func(context.Context) (Beginner[*memstore.Tx], error) { return memstore.New(nil), nil },
		d, in, terms...)
}

// CheckOn is like Check, over any database. It calls fresh before each run, for a database without rows. It
// needs a View, a Promise or an EmitsIfDone. AlsoOn runs schedules in parallel, and WithoutPairs omits some
// of them.
func CheckOn[TTx, In any](t T, fresh func(ctx context.Context) (Beginner[TTx], error), d *saga.Definition[In],
	in In, terms ...Term) Checked {
	t.Helper()
	c := &checker[TTx]{ctx: t.Context(), fresh: alsoOn[TTx]{fresh}, d: d.Body(), in: in,
		usual: map[string]outcome{}, same: map[string]int{}}
	err := d.Faults()
	for i, s := range c.d.Steps {
		if _, local := s.Tx.(*engine.Local[TTx]); s.Tx != nil && !local {
			if _, asks := engine.OutsideOf[TTx](s.Tx); !asks {
				err = errors.Join(err,
					fmt.Errorf("the step %s takes %v: check it with CheckOn, over a database of that kind",
						c.d.Plan.Graph.Steps[i].Name, s.Tx.Type()))
			}
		}
	}
	var all []brings
	for _, term := range terms {
		switch term := term.(type) {
		case brings:
			all = append(all, term)
		case given[TTx]:
			c.given = append(c.given, term)
		case promise[TTx]:
			c.promises = append(c.promises, term)
		case view[TTx]:
			c.views = append(c.views, term)
		case outside:
			c.outside = append(c.outside, term)
		case rival:
			c.rival = term.in
		case older:
			c.older = term.d.Body()
			err = errors.Join(err, term.d.Faults())
		case emits:
			c.emits = append(c.emits, term)
		case alsoOn[TTx]:
			c.fresh = append(c.fresh, term...)
		case noPairs:
			c.short = true
		default:
			err = errors.Join(err,
				fmt.Errorf("a term of the type %T takes another transaction than this database has", term))
		}
	}
	if len(c.fresh) > 1 && len(c.outside) > 0 {
		err = errors.Join(err, errors.New("Outside has one fake, which is reset for one run at a time: omit AlsoOn, "+
			"or store the data of the fake in the database"))
	}
	if len(c.views)+len(c.promises)+len(c.emits) == 0 {
		err = errors.Join(err, errors.New("nothing is compared, so no fault would be found: give View, with "+
			"the relevant data of your tables, or a Promise"))
	}
	if err = errors.Join(err, c.take(all), c.distinct()); err != nil {
		t.Fatalf("check: %v", err)
	}
	if text, ok := os.LookupEnv(Replay); ok {
		return c.replay(t, text)
	}
	c.runAll()
	return c.report(t)
}

// report reports the failures to t.
func (c *checker[TTx]) report(t T) Checked {
	t.Helper()
	for _, f := range c.failures {
		how, others := strings.Join(f.Broken, "\n"), ""
		if n := c.same[how]; n > 1 {
			others = fmt.Sprintf("\n%d schedules fail in this way; this is the first one", n)
		}
		t.Errorf("%s%s\nrun it again: %s\n%s", how, others, line(t.Name(), f.Schedule), f.Trace)
	}
	if c.serial != nil && c.serial[[2]bool{true, true}] == nil {
		t.Logf("the saga and its rival never both end well, so lost writes can hardly be found: " +
			"use inputs with which both can end well")
	}
	r := Checked{Runs: c.runs, Refused: c.refused, Failures: c.failures}
	if t.Logf("%d runs of the saga %s", r.Runs, c.d.Name); c.older != nil {
		t.Logf("%d of them began by the older definition, and the newer one refuses them", r.Refused)
	}
	return r
}

// Checked is the result of Check.
type Checked struct {
	Runs     int
	Refused  int       // sagas of an older definition that the new definition refuses
	Failures []Failure // at most ten, all different
}

// checker runs one saga repeatedly.
type checker[TTx any] struct {
	ctx      context.Context
	fresh    alsoOn[TTx] // one function for each database
	d        *engine.Definition
	in       any
	given    []given[TTx]
	promises []promise[TTx]
	emits    []emits
	views    []view[TTx]
	outside  []outside
	rival    any
	older    *engine.Definition
	short    bool

	first  map[source]json.RawMessage // the values for runs without the mode Value
	values []value                    // the other values

	usual  map[string]outcome   // results without a fault, by values of the schedule
	serial map[[2]bool][]string // views after both sagas ran one after the other, by whether each is done

	mu       sync.Mutex // for all below: runs on several databases end at the same time
	runs     int
	refused  int
	failures []Failure
	same     map[string]int // number of schedules with the same failure
}

// outcome is how a run ends.
type outcome struct {
	done bool
	view string
}

const mostFailures = 10

// runAll runs each schedule.
func (c *checker[TTx]) runAll() {
	base := c.begin()
	if base != nil {
		c.runWith(nil, base, map[source]bool{})
	}
	if c.older != nil && len(c.failures) == 0 {
		var faults []Fault
		for n := range len(base.log) + 20 { // the older definition may have more points
			faults = append(faults, Fault{Deploys, n + 1})
		}
		c.runEach(nil, faults)
	}
}

// runWith runs each fault with these values. Then it tries each other value of the sources that the saga
// reaches only with these values.
func (c *checker[TTx]) runWith(values Schedule, base *sagaRun[TTx], met map[source]bool) {
	var faults []Fault
	for _, withRival := range []bool{false, true} { // failures without a rival are easier to read
		for _, first := range base.log {
			for _, mode := range first.modes {
				if (mode == WithRival) == withRival {
					faults = append(faults, Fault{mode, first.at})
				}
			}
		}
	}
	if !c.runEach(values, faults) {
		return
	}
	known := maps.Clone(met)
	maps.Copy(known, base.met)
	for n, v := range c.values {
		if base.met[v.of] && !met[v.of] && len(c.failures) == 0 {
			more := append(slices.Clone(values), Fault{Value, n + 1})
			if other := c.try(more); len(other.broken) == 0 {
				c.runWith(more, other, known)
			}
		}
	}
}

// runEach runs a schedule for each fault, one at a time on each database, until there are enough failures. It
// returns false if it omitted faults.
func (c *checker[TTx]) runEach(values Schedule, faults []Fault) bool {
	next := 0
	take := func() (f Fault, ok bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if next == len(faults) || len(c.failures) >= mostFailures || c.ctx.Err() != nil {
			return f, false
		}
		next++
		return faults[next-1], true
	}
	var wg sync.WaitGroup
	for on := range c.fresh {
		work := func() {
			for f, ok := take(); ok; f, ok = take() {
				c.runPairs(on, values, f)
			}
		}
		if on == len(c.fresh)-1 {
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	return next == len(faults) && len(c.failures) < mostFailures && c.ctx.Err() == nil
}

// begin runs the saga twice without a fault. Then it runs the saga and its rival one after the other. It
// returns nil if one of these runs fails.
func (c *checker[TTx]) begin() *sagaRun[TTx] {
	base := c.try(nil)
	if len(c.failures) > 0 {
		return nil
	}
	if again := c.try(nil); len(c.failures) == 0 && again.trace() != base.trace() {
		c.failures = append(c.failures,
			Failure{Broken: []string{"two runs without a fault differ: the first was\n" +
				indent(base.trace()) + "and the second is below: " + chance}, Trace: again.trace()})
	}
	if c.rival != nil && len(c.failures) == 0 {
		c.serial = map[[2]bool][]string{}
		for _, order := range [][]int{{0, 1}, {1, 0}, {0}, {1}, {}} {
			if err := c.inTurn(order...); err != nil {
				c.failures = append(c.failures, Failure{Broken: []string{err.Error()}})
			}
		}
	}
	if len(c.failures) > 0 {
		return nil
	}
	return base
}

// runPairs runs a schedule with one fault. If this fault changed the course of the saga, runPairs then adds a
// second fault at each later point.
func (c *checker[TTx]) runPairs(on int, values Schedule, f Fault) {
	s := append(slices.Clone(values), f)
	run := c.tryOn(on, s)
	if len(run.broken) > 0 || c.short {
		return
	}
	aside := f.Mode == WithRival || f.Mode == Deploys
	for _, point := range run.log {
		if point.at < f.At || point.at == f.At && !aside || !run.turned && !aside {
			continue
		}
		for _, mode := range point.modes {
			back := mode == Cancels || mode == Deadline || mode == CancelsDuring || mode == WithRival
			if !point.inLine && (back || aside && mode != Rejects && mode != FailsPermanently) {
				continue
			}
			c.tryOn(on, append(slices.Clone(s), Fault{mode, point.at}))
		}
	}
}

// try runs a schedule on the first database, and checks the result.
func (c *checker[TTx]) try(s Schedule) *sagaRun[TTx] { return c.tryOn(0, s) }

func (c *checker[TTx]) tryOn(on int, s Schedule) *sagaRun[TTx] {
	r := &sagaRun[TTx]{c: c, d: c.d, on: on, faults: s}
	err := r.runAndJudge()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	if errors.Is(err, errRefused) {
		c.refused++
		return r
	}
	if err != nil {
		r.broken = append(r.broken, err.Error())
	}
	if len(r.broken) == 0 {
		return r
	}
	how := strings.Join(r.broken, "\n")
	if c.same[how]++; c.same[how] == 1 && len(c.failures) < mostFailures {
		c.failures = append(c.failures, Failure{Schedule: s, Broken: r.broken, Trace: r.trace()})
	}
	return r
}
