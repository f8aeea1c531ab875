package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

// puts returns a step that writes its name, unless wrong returns an error. The undo of the step removes the
// name.
func puts(name string, wrong func(r saga.Run[buy], tx mtx) error, opts ...saga.Option) *saga.Step[buy, bool] {
	return saga.Do(name, func(_ context.Context, tx mtx, r saga.Run[buy]) (bool, error) {
		if wrong != nil {
			if err := wrong(r, tx); err != nil {
				return false, err
			}
		}
		return true, tx.Put(name, "done")
	}, func(_ context.Context, tx mtx, _ saga.Run[buy], _ bool) error { return tx.Delete(name) }, opts...)
}

// final is like puts, without an undo, for the pivot and the steps after it.
func final(name string, opts ...saga.Option) *saga.Step[buy, bool] {
	return saga.Do(name, func(_ context.Context, tx mtx, _ saga.Run[buy]) (bool, error) {
		return true, tx.Put(name, "done")
	}, nil, opts...)
}

func checkSteps(t sagatest.T, o saga.Options[buy], steps ...saga.StepOf[buy]) sagatest.Checked {
	o.Key = func(b buy) string { return b.ID }
	return sagatest.Check(t, saga.New("steps", &o, steps...), buy{ID: "a"})
}

// TestCheckFindsASagaThatOnePassingFailureEnds: a transient failure must not turn a saga back while its
// step has attempts left, and must not leave it stuck. The printed schedule shows it again.
func TestCheckFindsASagaThatOnePassingFailureEnds(t *testing.T) {
	once, pivot := saga.Retry(saga.Policy{Attempts: 1}), final("pivot", saga.Pivot())
	bank := call.NewProvider("bank", nil)
	asks := func(lookUp func() (bool, bool, error), opts ...saga.Option) *saga.Step[buy, bool] {
		return saga.CallWith("ask", saga.Request[mtx, buy, int, bool]{At: bank,
			Intent: func(context.Context, mtx, saga.Run[buy]) (int, error) { return 1, nil },
			Do:     func(context.Context, int, string) (bool, error) { return true, nil },
			LookUp: func(context.Context, int, string) (bool, bool, error) { return lookUp() },
		}, nil, opts...)
	}
	found := func() (bool, bool, error) { return true, true, nil }
	count := saga.Do("count",
		func(_ context.Context, _ mtx, r saga.Run[buy]) (int, error) { return r.Attempt, nil }, nil,
		saga.NoEffect())
	parcel := saga.Command("ship", skald.Event[string]{Topic: "vans", Type: "ship"},
		func(r saga.Run[buy]) string {
			if r.Attempt > 1 {
				panic("it was sent")
			}
			return r.Key
		}, saga.Reply(wired), saga.NoEffect(),
		saga.Retry(saga.Policy{Attempts: 3, Timeout: time.Minute}))
	for name, c := range map[string]struct {
		steps []saga.StepOf[buy]
		from  string
		want  string
	}{
		"a step that works once": {[]saga.StepOf[buy]{puts("hold", func(r saga.Run[buy], _ mtx) error {
			if r.Attempt > 1 {
				return errors.New("there is a lock file")
			}
			return nil
		}), pivot}, "fails@1", `(fails, at "run hold") turns the saga back, which ends well without it: ` +
			`when repeated, the step hold says "there is a lock file"`},
		"a panic": {[]saga.StepOf[buy]{puts("hold", func(r saga.Run[buy], _ mtx) error {
			if r.Attempt > 1 {
				panic("boom")
			}
			return nil
		}), pivot}, "fails@1", `the step hold says "handler panicked: boom"`},
		"a step that goes by the attempt of another": {[]saga.StepOf[buy]{count,
			puts("hold", func(r saga.Run[buy], _ mtx) error {
				if count.Output(r) > 1 {
					return skald.Reject(errors.New("too often"))
				}
				return nil
			}), pivot}, "fails@1", `(fails, at "run count") turns the saga back, which ends well without it: ` +
			`after that the step hold says "rejected: too often"`},
		"a request that is looked up wrongly": {[]saga.StepOf[buy]{asks(func() (bool, bool, error) {
			return false, false, skald.Reject(errors.New("unknown key"))
		}, saga.NoEffect()), pivot}, "lost@2", `(lost, at "run request of ask")`},
		"a command that is written once": {[]saga.StepOf[buy]{parcel, pivot}, "lost@2",
			`(lost, at "reply to ship") turns the saga back`},
		"one attempt after the pivot": {[]saga.StepOf[buy]{pivot, final("mail", once)}, "fails@2",
			"(fails) leaves the saga stuck until an operator decides: the step mail fails, and its Retry " +
				"allows one attempt, and the pivot is passed"},
		"one request after the pivot": {[]saga.StepOf[buy]{pivot, asks(found, once)}, "fails@2",
			"the step ask fails, and its Retry allows one attempt"},
		"one attempt to undo": {[]saga.StepOf[buy]{puts("hold", nil,
			saga.RetryUndo(saga.Policy{Attempts: 1})), pivot}, "rejects@2,fails@3",
			"undo of hold fails, and its RetryUndo allows one attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{T: t}
			checkSteps(r, saga.Options[buy]{}, c.steps...)
			said := strings.Join(r.said, "\n")
			if !strings.Contains(said, c.want) || !strings.Contains(said, sagatest.Replay+"='"+c.from+"' ") {
				t.Fatalf("want %q by %s, got %s", c.want, c.from, said)
			}
			t.Setenv(sagatest.Replay, c.from)
			again := &recorder{T: t}
			checkSteps(again, saga.Options[buy]{}, c.steps...)
			if !strings.Contains(strings.Join(again.said, "\n"), c.want) {
				t.Errorf("the replay found %q", again.said)
			}
		})
	}
}

// TestCheckAcceptsSagasThatTurnBack: Check accepts a saga that turns back by its definition, or for
// another reason than the failure.
func TestCheckAcceptsSagasThatTurnBack(t *testing.T) {
	once, pivot := saga.Retry(saga.Policy{Attempts: 1}), final("pivot", saga.Pivot())
	first := puts("first", nil, saga.AtStart())
	second := puts("second", func(_ saga.Run[buy], tx mtx) error {
		if _, there := tx.Get("first"); !there {
			return skald.Reject(errors.New("the first is not there"))
		}
		return nil
	}, saga.AtStart())
	for name, c := range map[string]struct {
		o     saga.Options[buy]
		steps []saga.StepOf[buy]
	}{
		"one attempt before the pivot": {steps: []saga.StepOf[buy]{puts("hold", nil, once), pivot}},
		"two attempts, of which the first fails by itself": {steps: []saga.StepOf[buy]{
			puts("hold", func(r saga.Run[buy], _ mtx) error {
				if r.Attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			}, saga.Retry(saga.Policy{Attempts: 2})), pivot}},
		"a command that is sent once": {steps: []saga.StepOf[buy]{saga.Command("ship",
			skald.Event[string]{Topic: "vans", Type: "ship"}, func(r saga.Run[buy]) string { return r.Key },
			saga.Reply(wired), saga.NoEffect(), saga.Timeout(time.Minute)), pivot}},
		"a deadline before the second attempt": {o: saga.Options[buy]{Deadline: time.Second},
			steps: []saga.StepOf[buy]{puts("hold", nil,
				saga.Retry(saga.Policy{InitialInterval: time.Minute})), pivot}},
		"a step beside that says no to what it finds": {steps: []saga.StepOf[buy]{first, second,
			final("pivot", saga.Pivot(), saga.After(first, second))}},
	} {
		t.Run(name, func(t *testing.T) { checkSteps(t, c.o, c.steps...) })
	}
}

// TestCheckOnNeedsAView: CheckOn compares no data by default, so it requires View or a promise.
func TestCheckOnNeedsAView(t *testing.T) {
	d := saga.New("steps", &saga.Options[buy]{Key: func(b buy) string { return b.ID }}, puts("hold", nil),
		final("pivot", saga.Pivot()))
	fresh := func(context.Context) (sagatest.Beginner[mtx], error) { return memstore.New(nil), nil }
	for _, c := range []struct {
		terms []sagatest.Term
		want  string
	}{
		{nil, "nothing is compared, so no fault would be found: give View, "},
		{[]sagatest.Term{sagatest.Outside(nil, func() string { return "" })}, "nothing is compared"},
		{[]sagatest.Term{sagatest.View(func(context.Context, mtx) (string, error) { return "", nil })}, ""},
		{[]sagatest.Term{sagatest.Promise(func(context.Context, mtx, sagatest.End) error { return nil })},
			""},
	} {
		r := &deadly{recorder{T: t}}
		func() {
			defer func() {
				if v := recover(); v != nil {
					r.said = append(r.said, fmt.Sprint(v))
				}
			}()
			sagatest.CheckOn(r, fresh, d, buy{ID: "a"}, c.terms...)
		}()
		if said := strings.Join(r.said, "\n"); (said == "") != (c.want == "") ||
			!strings.Contains(said, c.want) {
			t.Errorf("want %q, got %q", c.want, said)
		}
	}
}

// TestReplayOfAMissingFault: if a fault of a schedule is never injected, the replay fails with the
// reason.
func TestReplayOfAMissingFault(t *testing.T) {
	for schedule, want := range map[string]string{
		"none": "", "fails@1": "", "rejects@3,fails@4": "", "fails@1,twice@3": "", "value@1": "", "twice@2": "",
		"rejects@99":         "the fault rejects@99 never came up: this run has 4 steps",
		"fails@1,gives-up@7": "the fault gives-up@7 never came up: this run has 5 steps",
		"late@1": `the fault late@1 never came up: step 1 of this run is "run hold", which allows ` +
			`[fails dies rejects gives-up overtook cancels]`,
		"deploys@1": "the fault deploys@1 never came up: it must be the first fault, and Check needs an Older " +
			"definition",
	} {
		t.Setenv(sagatest.Replay, schedule)
		r := &recorder{T: t}
		d := saga.New("steps", &saga.Options[buy]{Key: func(b buy) string { return b.ID }}, puts("hold", nil),
			saga.Wait[buy]("note", notes), final("pivot", saga.Pivot()), final("mail"))
		sagatest.Check(r, d, buy{ID: "a"}, sagatest.Signal(notes, "a", "b"))
		if said := strings.Join(r.said, "\n"); (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: want %q, got %q", schedule, want, said)
		}
	}
}

// loud is a recorder that also records log lines.
type loud struct{ recorder }

func (l *loud) Logf(format string, args ...any) { l.Errorf(format, args...) }

// TestTextsOfCheck: views are separated by line breaks, and the summary mentions an older definition only
// if there is one.
func TestTextsOfCheck(t *testing.T) {
	d := saga.New("steps", &saga.Options[buy]{Key: func(b buy) string { return b.ID }},
		saga.Do("hold", func(_ context.Context, tx mtx, _ saga.Run[buy]) (bool, error) {
			return true, tx.Put("tea", "7")
		}, func(context.Context, mtx, saga.Run[buy], bool) error { return nil }),
		final("pivot", saga.Pivot()))
	r := &loud{recorder{T: t}}
	terms := []sagatest.Term{sagatest.View(func(_ context.Context, tx mtx) (string, error) {
		tea, _ := tx.Get("tea")
		return "tea=" + tea, nil
	}), sagatest.Outside(nil, func() string { return "bank has 900" })}
	sagatest.Check(r, d, buy{ID: "a"}, terms...)
	said := strings.Join(r.said, "\n")
	if !strings.Contains(said, "    tea=7\n    bank has 900\n") || strings.Contains(said, "refused") ||
		!regexp.MustCompile(`\d+ runs of the saga steps$`).MatchString(said) {
		t.Errorf("got\n%s", said)
	}
	r.said = nil
	sagatest.Check(r, d, buy{ID: "a"}, append(terms, sagatest.Older(d))...)
	if said := strings.Join(r.said, "\n"); !strings.Contains(said, "0 of them began by the older") {
		t.Errorf("got\n%s", said)
	}
}
