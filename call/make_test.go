package call_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// job is an owner that records how the attempt ended.
type job struct {
	lease   call.Lease
	sending int
	ended   int
	err     error // the reason of Later
}

func (j *job) Lease() call.Lease { return j.lease }
func (j *job) GivesUp() bool     { return true }

func (j *job) Sending(ctx context.Context, _ time.Duration) (context.Context, func()) {
	j.sending++
	return ctx, func() { j.ended++ }
}
func (j *job) Answered(_ context.Context, c store.Call) string { return "answered " + c.Outcome }
func (j *job) Later(_ context.Context, after time.Duration, err error) string {
	j.err = err
	return "later " + after.String()
}
func (j *job) Failed(_ context.Context, err error) string {
	return "failed " + string(failure.Of(err)) + " " + err.Error()
}
func (j *job) Late() string { return "late" }

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type bank = call.Call[int, string, string, string]

func bound(c bank) call.Bound[int] {
	if c.At == nil {
		c.At = call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second})
	}
	by := call.By{Name: "test", Retry: time.Second, Now: func() time.Time { return now },
		Logger: slog.New(slog.DiscardHandler)}
	return call.Bind(c, by, func(_ context.Context, m skald.Message) (skald.Received[string], error) {
		return skald.Received[string]{Message: m, Value: string(m.Data)}, nil
	})
}

func answers(out string, err error) func(context.Context, string, string) (string, error) {
	return func(context.Context, string, string) (string, error) { return out, err }
}

func found(out string, yes bool) func(context.Context, string, string) (string, bool, error) {
	return func(context.Context, string, string) (string, bool, error) { return out, yes, nil }
}

func TestMake(t *testing.T) {
	lost := errors.New("connection reset")
	for name, c := range map[string]struct {
		call  bank
		of    store.Call
		begun bool
		since time.Duration // of the lease, ago
		want  string        // a prefix
	}{
		"an answer": {call: bank{Do: answers("done", nil)},
			want: `answered {"Value":"done"`},
		"a refusal": {call: bank{Do: answers("", skald.Reject(errors.New("no")))},
			want: `answered {"Value":"","Refused":true,"Reason":"no"}`},
		"not now": {
			call: bank{Do: answers("", skald.RetryAfter(time.Minute, lost))}, want: "later 1m0s"},
		"never": {call: bank{Do: answers("", skald.Permanent(lost))},
			want: "failed permanent"},
		"no answer": {call: bank{Do: answers("", lost)},
			want: "failed unknown outcome no answer from bank to the call under key k"},
		"a panic is no answer": {
			call: bank{Do: func(context.Context, string, string) (string, error) { panic("oh") }},
			want: "failed panic"},
		"the answer is known": {of: store.Call{Outcome: "{}"}, begun: true,
			want: "answered {}"},
		"it is looked up first": {call: bank{LookUp: found("before", true)}, begun: true,
			want: `answered {"Value":"before"`},
		"nothing is found, so it is sent": {call: bank{LookUp: found("", false), Do: answers("again", nil)},
			begun: true, want: `answered {"Value":"again"`},
		"its key is voided": {call: bank{Cancel: found("", false)},
			of: store.Call{Undo: true}, want: `answered {"Value":"","Refused":true`},
		"it was done before it was voided": {call: bank{Cancel: found("done", true)},
			of: store.Call{Undo: true}, want: `answered {"Value":"done","Refused":false`},
		"its key may be forgotten": {call: bank{Memory: time.Hour}, of: store.Call{Age: time.Hour},
			begun: true, want: "failed permanent permanent: call: the provider"},
		"nearly, and the lease took long": {call: bank{Memory: time.Hour},
			of: store.Call{Age: time.Hour - time.Minute}, begun: true, since: time.Minute,
			want: "failed permanent"},
		"an old call that was never begun": {call: bank{Memory: time.Hour, Do: answers("done", nil)},
			of: store.Call{Age: 2 * time.Hour}, want: "answered"},
		"others may have taken the work up": {call: bank{}, since: 10 * time.Minute, want: "late"},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.Key, c.of.Request = "k", `"req"`
			j := &job{lease: call.Lease{Since: now.Add(-c.since), For: 5 * time.Minute}}
			if got := call.Make(t.Context(), bound(c.call), j, c.of, c.begun); !strings.HasPrefix(got,
				c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if sent := c.want != "late" && c.of.Outcome == ""; j.sending != j.ended ||
				(j.sending == 1) != sent {
				t.Errorf("%d began, %d ended", j.sending, j.ended)
			}
		})
	}
}

// TestMakeWithoutRoomOrAnswers checks that Make sends no requests for a while after several without an
// answer.
func TestMakeWithoutRoomOrAnswers(t *testing.T) {
	at := call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second, Trip: 2, Rest: time.Minute})
	b := bound(bank{At: at, Do: answers("", errors.New("POST /charges/of-another: 503"))})
	j := &job{lease: call.Lease{Since: now, For: time.Minute}}
	for range 2 {
		call.Make(t.Context(), b, j, store.Call{Key: "of-another", Request: `""`}, false)
	}
	if got := call.Make(t.Context(), b, j, store.Call{Key: "k", Request: `""`}, true); got != "later 1m0s" ||
		j.sending != 2 {
		t.Errorf("%s after %d requests", got, j.sending)
	}
	if j.err == nil || strings.Contains(j.err.Error(), "of-another") ||
		!strings.HasPrefix(j.err.Error(), "no request to bank now") {
		t.Errorf("its error quotes another call: %v", j.err)
	}
}

func TestIntendAndSettle(t *testing.T) {
	key, settled := "k", ""
	b := bound(bank{
		Intent: func(_ context.Context, _ int, m skald.Received[string]) (string, string, error) {
			return m.Value, key, nil
		},
		Settle: func(_ context.Context, _ int, m skald.Received[string], o call.Outcome[string]) error {
			settled = m.Value + " " + o.Value
			return nil
		},
	})
	m := skald.Message{Data: []byte("req")}
	c, err := b.Intend(t.Context(), 1, m)
	if err != nil || c == nil || *c != (store.Call{Key: "k", Request: `"req"`}) {
		t.Errorf("intends %+v, %v", c, err)
	}
	if err := b.Settle(t.Context(), 1, m, `{"Value":"done"}`); err != nil || settled != "req done" {
		t.Errorf("settled %q, %v", settled, err)
	}
	if err := b.Settle(t.Context(), 1, m, `no`); err == nil {
		t.Error("no outcome is read as one")
	}
	key = ""
	if c, err := b.Intend(t.Context(), 1, m); c != nil || err != nil {
		t.Errorf("intends %+v, %v", c, err)
	}
	for _, key = range []string{strings.Repeat("k", 256), "\xff", "a\x00"} {
		if _, err := b.Intend(t.Context(), 1, m); failure.Of(err) != failure.Permanent {
			t.Errorf("key %.10q: %v", key, err)
		}
	}
	if !call.Refused(`{"Refused":true}`) || call.Refused(`{"Value":"x"}`) || call.Refused("") {
		t.Error("Refused does not recognize a refusal")
	}
}
