package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
)

type verdict struct {
	OK    bool
	Cents int
}

var (
	verdicts = saga.Signal[verdict]{Name: "verdict"}
	notes    = saga.Signal[string]{Name: "note"}
	wired    = skald.Event[string]{Topic: "bank.out", Type: "wired"}
)

// claim is a claim that is paid after a person has set the amount. Tests select bugs in its saga.
type claim struct {
	lapses  bool
	grant   func(tx mtx, v verdict, there bool) (int, error)
	ungrant func(tx mtx, cents int) error
	undo    func(wire *saga.Step[buy, string], r saga.Run[buy]) string
}

func aClaim() *claim {
	return &claim{
		grant: func(tx mtx, v verdict, there bool) (int, error) {
			if there && !v.OK {
				return 0, skald.Reject(errors.New("the clerk says no"))
			}
			return v.Cents, addTo(tx, "cash", -v.Cents)
		},
		ungrant: func(tx mtx, cents int) error { return addTo(tx, "cash", cents) },
		undo:    func(_ *saga.Step[buy, string], r saga.Run[buy]) string { return r.Key },
	}
}

func (c *claim) check(t sagatest.T, more ...sagatest.Term) sagatest.Checked {
	opts := []saga.Option{saga.Timeout(time.Hour)}
	if c.lapses {
		opts = append(opts, saga.SkipOnTimeout())
	}
	inner := saga.New("look", &saga.Options[buy]{Key: func(b buy) string { return "look-" + b.ID }},
		saga.Do("look", func(context.Context, mtx, saga.Run[buy]) (bool, error) { return true, nil }, nil,
			saga.NoEffect()))
	look := saga.Child("look", inner, func(r saga.Run[buy]) buy { return r.In },
		saga.Timeout(time.Hour))
	wait := saga.Wait[buy]("wait", verdicts, opts...)
	grant := saga.Do("grant", func(_ context.Context, tx mtx, r saga.Run[buy]) (int, error) {
		if look.Output(r).Key != "look-"+r.Key {
			return 0, skald.Permanent(fmt.Errorf("the child is %+v", look.Output(r)))
		}
		v, there := wait.OutputIfRun(r)
		return c.grant(tx, v, there)
	}, func(_ context.Context, tx mtx, _ saga.Run[buy], cents int) error { return c.ungrant(tx, cents) })
	var wire *saga.Step[buy, string]
	wire = saga.Command("wire", skald.Event[int]{Topic: "bank", Type: "wire"}, grant.Output,
		saga.Reply(wired), saga.UndoBy(skald.Event[string]{Topic: "bank", Type: "unwire"},
			func(r saga.Run[buy]) string { return c.undo(wire, r) },
			saga.Reply(skald.Event[string]{Topic: "bank.out", Type: "unwired"})),
		saga.Timeout(time.Minute))
	last := saga.Do("last", func(_ context.Context, tx mtx, r saga.Run[buy]) (bool, error) {
		return true, tx.Put("wired", wire.Output(r))
	}, nil, saga.Pivot())
	d := saga.New("claim", &saga.Options[buy]{Key: func(b buy) string { return b.ID }}, look, wait, grant,
		wire, last)
	terms := append([]sagatest.Term{
		sagatest.Signal(verdicts, verdict{true, 40}, verdict{}, verdict{true, 0}),
		sagatest.Given(func(_ context.Context, tx mtx) error { return tx.Put("cash", "0") }),
	}, more...)
	return sagatest.Check(t, d, buy{ID: "c-1", Cents: 50}, terms...)
}

// TestCheckTriesAllValues checks that Check tries each value of a signal and a reply, and that it tries each
// signal and reply late, repeated and missing. The saga passes, and all of its ends occur.
func TestCheckTriesAllValues(t *testing.T) {
	for _, lapses := range []bool{false, true} {
		c, ends := aClaim(), map[string]bool{}
		c.lapses = lapses
		got := c.check(t, sagatest.Reply(wired, "w-1", "w-2"),
			sagatest.Promise(func(_ context.Context, tx mtx, end sagatest.End) error {
				var v verdict
				there, err := end.Output("wait", "", &v)
				number, _ := tx.Get("wired")
				is := fmt.Sprintf("%v %s %s %v%+v %s", end.Done, end.Why, end.Step, there, v, number)
				ends[is] = true
				return err
			}))
		want := []string{"true   true{OK:true Cents:40} w-1", "true   true{OK:true Cents:0} w-1",
			"true   true{OK:true Cents:40} w-2", "false rejected grant true{OK:false Cents:0} ",
			"false rejected wire true{OK:true Cents:0} ", "false failed wire true{OK:true Cents:40} ",
			"false failed look false{OK:false Cents:0} "}
		if lapses {
			want = append(want, "true   false{OK:false Cents:0} w-1")
		} else {
			want = append(want, "false failed wait false{OK:false Cents:0} ")
		}
		for _, end := range want {
			if !ends[end] {
				t.Errorf("lapses %v: none of %d runs ended with %q, of\n%s", lapses, got.Runs, end,
					strings.Join(slices.Sorted(maps.Keys(ends)), "\n"))
			}
		}
	}
}

// TestCheckFindsBugsOfValues checks bugs that appear only with a certain value, or without a value. Check
// finds each bug, reports it once, and finds it again by the printed command.
func TestCheckFindsBugsOfValues(t *testing.T) {
	for name, b := range map[string]struct {
		seed            func(c *claim)
		want, from, not string
	}{
		"a refusal is taken for an answer": {func(c *claim) {
			c.grant = func(tx mtx, v verdict, _ bool) (int, error) {
				return v.Cents, addTo(tx, "cash", -v.Cents)
			}
		}, "paid without a word", "value@1", ""},
		"the undo goes by the input": {func(c *claim) {
			c.grant = func(tx mtx, v verdict, _ bool) (int, error) {
				if !v.OK {
					return 0, skald.Reject(errors.New("no"))
				}
				return 40, addTo(tx, "cash", -v.Cents)
			}
		}, "cash = 40", "value@2,", ""},
		"the undo needs the reply": {func(c *claim) {
			c.undo = func(wire *saga.Step[buy, string], r saga.Run[buy]) string { return wire.Output(r) }
		}, "the step wire has no output: it has no answer yet", "lost@", ""},
		"the undo needs the signal that did not come": {func(c *claim) {
			c.lapses = true
			c.grant = func(tx mtx, v verdict, there bool) (int, error) {
				if there && !v.OK {
					return 0, skald.Reject(errors.New("no"))
				}
				if there {
					_ = tx.Put("said", "yes")
				}
				return v.Cents, addTo(tx, "cash", -v.Cents)
			}
			c.ungrant = func(tx mtx, cents int) error {
				if _, there := tx.Get("said"); !there {
					return errors.New("nothing was said")
				}
				return errors.Join(tx.Delete("said"), addTo(tx, "cash", cents))
			}
		}, "the undo of grant fails each time: nothing was said", "value@3,", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, r := aClaim(), &recorder{T: t}
			b.seed(c)
			check := func(r *recorder) sagatest.Checked {
				return c.check(r, sagatest.Promise(func(_ context.Context, tx mtx, end sagatest.End) error {
					var v verdict
					if there, err := end.Output("wait", "", &v); err != nil || there && !v.OK && end.Done {
						return errors.Join(err, errors.New("paid without a word"))
					}
					return nil
				}))
			}
			got := check(r)
			said := strings.Join(r.said, "\n")
			schedule := regexp.MustCompile(`SAGATEST_REPLAY='([^']+)'`).FindStringSubmatch(said)
			if schedule == nil || !strings.HasPrefix(schedule[1], b.from) || !strings.Contains(said, b.want) {
				t.Fatalf("want %q by %s, got %.2000s", b.want, b.from, said)
			}
			broken := got.Failures[0].Broken
			if n := strings.Count(said, strings.Join(broken, "\n")+"\n"); n != 1 {
				t.Errorf("%q is reported %d times", broken, n)
			}
			t.Setenv(sagatest.Replay, schedule[1])
			again := &recorder{T: t}
			if check(again); !strings.Contains(strings.Join(again.said, "\n"), strings.Join(broken, "\n")) {
				t.Errorf("the replay found %q", again.said)
			}
		})
	}
}

// TestCheckTriesAValueThatAnotherOneLeadsTo: if a source is reached only after a certain value of another
// source, its values are tried together with that value.
func TestCheckTriesAValueThatAnotherOneLeadsTo(t *testing.T) {
	wait := saga.Wait[buy]("wait", verdicts)
	note := saga.Wait[buy]("note", notes, saga.When(func(r saga.Run[buy]) bool { return !wait.Output(r).OK }))
	end := saga.Do("end", func(_ context.Context, tx mtx, r saga.Run[buy]) (string, error) {
		text, _ := note.OutputIfRun(r)
		return text, nil
	}, nil, saga.NoEffect())
	d := saga.New("noted", &saga.Options[buy]{Key: func(b buy) string { return b.ID }}, wait, note, end)
	seen := map[string]bool{}
	sagatest.Check(t, d, buy{ID: "a"}, sagatest.Signal(verdicts, verdict{OK: true}, verdict{}),
		sagatest.Signal(notes, "once", "never"),
		sagatest.Promise(func(_ context.Context, _ mtx, end sagatest.End) error {
			var text string
			_, err := end.Output("end", "", &text)
			seen[text] = true
			return err
		}))
	if !seen[""] || !seen["once"] || !seen["never"] {
		t.Errorf("it has seen %v", seen)
	}
}

// deadly is a recorder that ends its check as a T does, but the test continues.
type deadly struct{ recorder }

func (d *deadly) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestCheckReportsInvalidTerms: invalid terms, and sagas that cannot be checked, are reported with advice.
func TestCheckReportsInvalidTerms(t *testing.T) {
	wait := saga.Wait[buy]("wait", verdicts)
	key := func(b buy) string { return b.ID }
	step := func(do func(r saga.Run[buy]) (string, error)) *saga.Definition[buy] {
		return saga.New("told", &saga.Options[buy]{Key: key, MaxBytes: 1000}, wait, saga.Do("do",
			func(_ context.Context, _ mtx, r saga.Run[buy]) (string, error) { return do(r) }, nil,
			saga.NoEffect()))
	}
	fine := step(func(saga.Run[buy]) (string, error) { return "", nil })
	n := 0
	bank := call.NewProvider("bank", nil)
	for name, c := range map[string]struct {
		d     *saga.Definition[buy]
		terms []sagatest.Term
		want  string
	}{
		"an unknown signal": {fine, []sagatest.Term{sagatest.Signal(notes, "")},
			"no step of the saga told waits for the signal note"},
		"an unknown reply": {fine, []sagatest.Term{sagatest.Reply(wired, "")},
			"no step of the saga told waits for the reply wired on bank.out"},
		"another type": {fine, []sagatest.Term{sagatest.Signal(saga.Signal[int]{Name: "verdict"}, 7)},
			"the step wait does not take 7 from the signal verdict"},
		"said twice": {fine, []sagatest.Term{sagatest.Signal(verdicts, verdict{}),
			sagatest.Signal(verdicts, verdict{})}, "the values of the signal verdict are given twice"},
		"no JSON": {fine, []sagatest.Term{sagatest.Signal(saga.Signal[any]{Name: "verdict"}, any(func() {}))},
			"encode the values of the signal verdict"},
		"the zero value": {step(func(r saga.Run[buy]) (string, error) {
			if !wait.Output(r).OK {
				return "", skald.Reject(errors.New("no"))
			}
			return "", nil
		}), nil, "the signal verdict had the zero value of its type: set its values with Signal"},
		"by chance": {step(func(saga.Run[buy]) (string, error) {
			n++
			return strconv.Itoa(n), nil
		}), []sagatest.Term{sagatest.View(func(context.Context, mtx) (string, error) {
			return strconv.Itoa(n), nil
		})}, "two runs without a fault differ: the first left"},
		"an error that is a nil pointer": {step(func(saga.Run[buy]) (string, error) {
			var err *strconv.NumError
			return "", err
		}), nil, `it turns back at "do": failed:`},
		"an answer that is not kept": {saga.New("told", &saga.Options[buy]{Key: key, MaxBytes: 1000},
			saga.CallWith("ask", saga.Request[mtx, buy, int, string]{At: bank,
				Intent: func(context.Context, mtx, saga.Run[buy]) (int, error) { return 1, nil },
				Do: func(context.Context, int, string) (string, error) {
					return strings.Repeat("x", 2000), nil
				}}, nil, saga.NoEffect())), nil, "the output of the step ask is 2002 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &deadly{recorder{T: t}}
			func() {
				defer func() {
					if v := recover(); v != nil {
						r.said = append(r.said, fmt.Sprint(v))
					}
				}()
				sagatest.Check(r, c.d, buy{ID: "a"}, c.terms...)
			}()
			if said := strings.Join(r.said, "\n"); !strings.Contains(said, c.want) {
				t.Errorf("want %q, got %.1000s", c.want, said)
			}
		})
	}
}

// TestTraceOfAnUndoThatNeverSucceeds: repeated failures take two lines of the trace, with the error.
func TestTraceOfAnUndoThatNeverSucceeds(t *testing.T) {
	r := &recorder{T: t}
	s := aShopSaga()
	s.release = func(context.Context, mtx, saga.Run[buy], kept) error { return errors.New("no key") }
	got := s.check(r)
	if len(got.Failures) != 1 || len(r.said) != 1 || got.Runs > 300 {
		t.Fatalf("%d runs and %d failures, reported as %q", got.Runs, len(got.Failures), r.said)
	}
	if !regexp.MustCompile(`undo hold    : no key\n +\d+  the same\n$`).MatchString(got.Failures[0].Trace) ||
		strings.Count(got.Failures[0].Trace, "no key") != 1 ||
		!regexp.MustCompile(`\d+ schedules fail in this way`).MatchString(r.said[0]) {
		t.Errorf("it is reported as %s", r.said[0])
	}
}
