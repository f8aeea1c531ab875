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

// Modes of Check: what goes wrong at one of the steps of a run. A point is a function of yours that is
// called, or an answer from outside.
const (
	Fails Mode = "fails" // the function ran, and its transaction did not commit; it is tried again
	// Rejects: the function ran and was rolled back by skald.Reject, or the answer is a refusal.
	Rejects  Mode = "rejects"
	Dies     Mode = "dies"     // the process dies after the function ran, and before its commit
	Lost     Mode = "lost"     // a request or a command took effect, and its answer is lost
	Late     Mode = "late"     // a signal or a reply comes after the time for it is up
	Twice    Mode = "twice"    // a signal or a reply comes twice
	Cancels  Mode = "cancels"  // the saga is cancelled before the function
	Overtook Mode = "overtook" // the saga is cancelled while the function runs: its commit loses
	Deadline Mode = "deadline" // the deadline passes before the function
	GivesUp  Mode = "gives-up" // it fails and is not tried again; of an undo an operator has it tried again
	Beside   Mode = "beside"   // another saga runs before the function, as far as it can: see Rival
	Deploys  Mode = "deploys"  // the saga ran by an older definition up to here: see Older
	// Value is a value from outside, by its number: the values after the first of each Signal and Reply, in
	// the order of the terms. The last one is a signal that comes too late for a step with SkipOnTimeout.
	Value Mode = "value"
)

func checkModes() []Mode {
	return []Mode{Fails, Rejects, Dies, Lost, Late, Twice, Cancels, Overtook, Deadline, GivesUp, Beside,
		Deploys, Value}
}

// End is how a saga has ended.
type End struct {
	Done bool // else it is compensated
	Key  string
	Why  string // it turned back: "rejected", "failed", "deadline", "cancel"
	Step string // that it turned back at, if it was one

	state   *plan.State
	emitted []skald.Message
}

// Output decodes what a step has put out, into a pointer. False: it put nothing out.
func (e End) Output(step, occurrence string, out any) (bool, error) {
	r, ok := e.state.Run(step, occurrence)
	if !ok || r.Output == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.Output, out)
}

// Term is an argument of Check next to the definition: Given, Promise, EmitsIfDone, View, Outside,
// Signal, Reply, Rival, Older, AlsoOn or Short.
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

// Given writes what has to be there before the saga starts.
func Given[TTx any](write func(ctx context.Context, tx TTx) error) Term { return given[TTx](write) }

// Promise is asked when the saga has ended, of each run: an error breaks it.
func Promise[TTx any](holds func(ctx context.Context, tx TTx, end End) error) Term {
	return promise[TTx](holds)
}

// View is all that matters of your tables, as a text. A saga that is done has to leave the same as the run in
// which nothing goes wrong; one that is compensated, the same as before it started. Default over the memory
// store: all of it. Where a saga that is compensated may leave something, such as an order that is marked as
// failed, leave that out of the view, and promise it.
func View[TTx any](of func(ctx context.Context, tx TTx) (string, error)) Term { return view[TTx](of) }

// Outside is a fake of a service that the saga calls. Reset is called before each run; what view returns is
// added to View.
func Outside(reset func(), view func() string) Term { return outside{reset, view} }

// Rival is the input of another saga of the same definition, which works on the same rows. It is run whole
// before each function of the first one, which then ends well, or turns back at each later point. What both
// leave must be what they leave one after the other: else one has lost what the other wrote. A rival that
// wants an entity which the first saga has by its Lock waits in line and ends behind it; before its Lock, the
// first one waits for the rival.
func Rival(in any) Term { return rival{in} }

// Older is an earlier definition of the saga, with its functions. A saga that began by it goes on by the new
// one, at each point, and ends well or turns back from there. One that the new definition refuses is left
// out, and counted.
func Older(d saga.Defined) Term { return older{d} }

// AlsoOn gives CheckOn more databases, one by each function, as CheckOn's own function gives the first.
// CheckOn runs one schedule on each database at the same time, so the functions of the saga must be safe for
// concurrent use. The databases may be schemas of one server. CheckOn refuses AlsoOn next to Outside, because
// a fake is reset for one run at a time.
func AlsoOn[TTx any](fresh ...func(ctx context.Context) (Beginner[TTx], error)) Term {
	return alsoOn[TTx](fresh)
}

// Short leaves out the schedules with two faults: each fault is still tried alone at each point. On a server
// such a check takes a fraction of the time. Give it in a test that runs often, for example if
// testing.Short() is true.
func Short() Term { return noPairs{} }

// Beginner begins transactions: every store.Driver does.
type Beginner[TTx any] interface {
	Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error)
}

// Check runs a saga over the memory store again and again, with each step failing, each answer lost, each
// function repeated, its process dying, a cancellation and the deadline, at each point, and then with a
// second fault at each point after one that turned the saga back. After each run the promises must hold, and
// View must be as it says. One failure that passes turns no saga back whose step has attempts left, and
// leaves none stuck. What fails is printed with the line that runs it again.
//
// Participants, children and whoever sends signals are played. A participant says yes, with what Reply
// says, or no, or nothing in time, or late, or twice; a signal brings what Signal says, once, twice, or too
// late. Without such a term it is the zero value. A child is done, or turned back; it locks nothing. Your own
// functions and requests run as they are: what an outside service answers, a fake of yours says.
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

// CheckOn is Check over any database: fresh is asked for one without rows before each run. It needs View or a
// Promise. AlsoOn runs schedules at the same time, Short fewer of them.
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
		err = errors.Join(err, errors.New("Outside has one fake, which is reset for one run at a time: leave out AlsoOn, "+
			"or keep what the fake has in the database"))
	}
	if len(c.views)+len(c.promises)+len(c.emits) == 0 {
		err = errors.Join(err, errors.New("nothing is compared, so that no fault would be seen: give View, "+
			"all that matters of your tables, or a Promise"))
	}
	if err = errors.Join(err, c.take(all), c.distinct()); err != nil {
		t.Fatalf("check: %v", err)
	}
	if text, ok := os.LookupEnv(Replay); ok {
		return c.replay(t, text)
	}
	c.all()
	return c.report(t)
}

// report tells t of the failures.
func (c *checker[TTx]) report(t T) Checked {
	t.Helper()
	for _, f := range c.failures {
		how, others := strings.Join(f.Broken, "\n"), ""
		if n := c.same[how]; n > 1 {
			others = fmt.Sprintf("\nso it is after %d schedules, of which this is the first", n)
		}
		t.Errorf("%s%s\nrun it again: %s\n%s", how, others, line(t.Name(), f.Schedule), f.Trace)
	}
	if c.serial != nil && c.serial[[2]bool{true, true}] == nil {
		t.Logf("the saga and its rival never both end well, so it is hardly seen whether one loses what the other wrote: " +
			"give inputs of which both can")
	}
	r := Checked{Runs: c.runs, Refused: c.refused, Failures: c.failures}
	if t.Logf("%d runs of the saga %s", r.Runs, c.d.Name); c.older != nil {
		t.Logf("%d of them began by the older definition and are refused by the newer one", r.Refused)
	}
	return r
}

// Checked is what Check did.
type Checked struct {
	Runs     int
	Refused  int       // sagas of an older definition that the new one does not take on
	Failures []Failure // at most ten, each of another kind
}

// checker runs one saga over and over.
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

	first  map[source]json.RawMessage // what is brought where no Value says otherwise
	values []value                    // what else may be

	usual  map[string]outcome   // of the run in which nothing goes wrong, by its values
	serial map[[2]bool][]string // the views of two sagas one after the other, by which of them are done

	mu       sync.Mutex // of all below: runs end at the same time on several databases
	runs     int
	refused  int
	failures []Failure
	same     map[string]int // schedules that break what is promised in this way
}

// outcome is how a run ends.
type outcome struct {
	done bool
	view string
}

const mostFailures = 10

// all tries each schedule.
func (c *checker[TTx]) all() {
	base := c.begin()
	if base != nil {
		c.from(nil, base, map[source]bool{})
	}
	if c.older != nil && len(c.failures) == 0 {
		var faults []Fault
		for n := range len(base.log) + 20 { // the older one may have more points
			faults = append(faults, Fault{Deploys, n + 1})
		}
		c.each(nil, faults)
	}
}

// from tries each fault where these values are brought, and then each other value of those sources that the
// saga came to only by these.
func (c *checker[TTx]) from(values Schedule, base *sagaRun[TTx], met map[source]bool) {
	var faults []Fault
	for _, beside := range []bool{false, true} { // what one saga does wrong by itself is seen there best
		for _, first := range base.log {
			for _, mode := range first.modes {
				if (mode == Beside) == beside {
					faults = append(faults, Fault{mode, first.at})
				}
			}
		}
	}
	if !c.each(values, faults) {
		return
	}
	known := maps.Clone(met)
	maps.Copy(known, base.met)
	for n, v := range c.values {
		if base.met[v.of] && !met[v.of] && len(c.failures) == 0 {
			more := append(slices.Clone(values), Fault{Value, n + 1})
			if other := c.try(more); len(other.broken) == 0 {
				c.from(more, other, known)
			}
		}
	}
}

// each tries faults, one at a time on each database, until there are enough failures. Returns false if it
// left some out.
func (c *checker[TTx]) each(values Schedule, faults []Fault) bool {
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
				c.second(on, values, f)
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

// begin is the run in which nothing goes wrong, twice, and those of two sagas one after the other. Nil: one
// of them fails.
func (c *checker[TTx]) begin() *sagaRun[TTx] {
	base := c.try(nil)
	if len(c.failures) > 0 {
		return nil
	}
	if again := c.try(nil); len(c.failures) == 0 && again.trace() != base.trace() {
		c.failures = append(c.failures,
			Failure{Broken: []string{"twice nothing goes wrong, and it went first\n" +
				indent(base.trace()) + "and then as below: " + chance}, Trace: again.trace()})
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

// second tries a fault, and then with one more at each later point, where the first one leads to something
// new.
func (c *checker[TTx]) second(on int, values Schedule, f Fault) {
	s := append(slices.Clone(values), f)
	run := c.tryOn(on, s)
	if len(run.broken) > 0 || c.short {
		return
	}
	aside := f.Mode == Beside || f.Mode == Deploys
	for _, point := range run.log {
		if point.at < f.At || point.at == f.At && !aside || !run.turned && !aside {
			continue
		}
		for _, mode := range point.modes {
			back := mode == Cancels || mode == Deadline || mode == Overtook || mode == Beside
			if !point.inLine && (back || aside && mode != Rejects && mode != GivesUp) {
				continue
			}
			c.tryOn(on, append(slices.Clone(s), Fault{mode, point.at}))
		}
	}
}

// try is one run on the first database, and its judgement.
func (c *checker[TTx]) try(s Schedule) *sagaRun[TTx] { return c.tryOn(0, s) }

func (c *checker[TTx]) tryOn(on int, s Schedule) *sagaRun[TTx] {
	r := &sagaRun[TTx]{c: c, d: c.d, on: on, faults: s}
	err := r.whole()
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
