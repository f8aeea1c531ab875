package failure_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

func panicking() (err error) {
	defer failure.Recover(&err)
	panic("no")
}

func TestClassOfAnError(t *testing.T) {
	plain := errors.New("connection refused")
	for name, c := range map[string]struct {
		err  error
		want failure.Class
	}{
		"an unmarked error":        {plain, failure.Transient},
		"permanent":                {fmt.Errorf("wrapped: %w", skald.Permanent(plain)), failure.Permanent},
		"an outage":                {skald.Outage(plain), failure.Outage},
		"an outage, and permanent": {skald.Permanent(skald.Outage(plain)), failure.Permanent},
		"an unknown version":       {skald.UnknownVersion(plain), failure.UnknownVersion},
		"malformed":                {&failure.MalformedError{Err: plain}, failure.Malformed},
		"a call without an answer": {&failure.UnknownError{Provider: "p", Key: "k", Err: plain},
			failure.Unknown},
		"too slow, and malformed": {fmt.Errorf("%w: %w", failure.ErrTimeout,
			&failure.MalformedError{Err: plain}), failure.Transient},
		"a panic":                             {panicking(), failure.Panicked},
		"an outage joined with another error": {errors.Join(plain, skald.Outage(plain)), failure.Outage},
	} {
		if got := failure.Of(c.err); got != c.want {
			t.Errorf("%s: class %q, want %q", name, got, c.want)
		}
	}
}

// TestRetry checks that a message is retried with growing waits until its attempts or its age are used up.
// Unknown versions do not count as attempts and end by age.
func TestRetry(t *testing.T) {
	retry := failure.Retry{InitialInterval: time.Second, MaxInterval: 4 * time.Second, Attempts: 3,
		Age: time.Hour}
	var r failure.Record
	at := time.Unix(1000, 0)
	for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		r.Add(store.Failure{At: at.Add(time.Duration(i) * time.Minute), Why: "no"},
			failure.Transient.Charged())
		if w := retry.Wait(failure.Transient, r); w < least || w > least*3/2 {
			t.Errorf("wait %v after failure %d, want %v to one and a half of it", w, i+1, least)
		}
		want := ""
		if i == 2 {
			want = failure.KindAttempts
		}
		if got := retry.Dead(failure.Transient, r); got != want {
			t.Errorf("after failure %d: kind %q, want %q", i+1, got, want)
		}
	}
	if !r.First.At.Equal(at) || r.Attempts != 3 || len(r.Failures) != 3 || r.Failures[2] != r.Last {
		t.Errorf("record %+v", r)
	}
	longer, other := r, r
	for range store.MaxFailures {
		longer.Add(store.Failure{At: at, Why: "later"}, false)
		other.Add(store.Failure{At: at, Why: "other"}, false)
	}
	if n := len(longer.Failures); n != store.MaxFailures || longer.Failures[n-1].Why != "later" ||
		len(r.Failures) != 3 {
		t.Errorf("%d failures are kept of two records with the same beginning", n)
	}

	r = failure.Record{}
	for i := range 10 {
		r.Add(store.Failure{At: at.Add(time.Duration(i) * 7 * time.Minute)}, failure.UnknownVersion.Charged())
		want := ""
		if i == 9 {
			want = failure.KindAge
		}
		if got := retry.Dead(failure.UnknownVersion, r); got != want || r.Attempts != 0 {
			t.Errorf("after unknown version %d: kind %q, %d attempts", i+1, got, r.Attempts)
		}
	}
	for _, c := range []failure.Class{failure.Permanent, failure.Malformed, failure.TooLarge} {
		if got := retry.Dead(c, failure.Record{Attempts: 1}); got != string(c) {
			t.Errorf("%s: kind %q", c, got)
		}
	}
}

func TestFingerprintIgnoresDetailsOfOneMessage(t *testing.T) {
	f := failure.NewFingerprints()
	one := f.Of(failure.Transient, "order",
		`order "a" of 0198f3a2-0000-7000-8000-000000000001: 17 left at 0xc0ffee`)
	if two := f.Of(failure.Transient, "order",
		`order "b" of 0198f3a2-ffff-7000-8000-000000000002: 4 left at 0x1`); one != two || len(one) != 12 {
		t.Errorf("%q and %q", one, two)
	}
	for _, other := range []string{f.Of(failure.Permanent, "order", "x"),
		f.Of(failure.Transient, "payment", "x"), f.Of(failure.Transient, "order", "y")} {
		if other == f.Of(failure.Transient, "order", "x") {
			t.Error("two kinds of failure have one fingerprint")
		}
	}
}

func TestADeathHasTheStackOfThePanic(t *testing.T) {
	d := failure.NewDeath("panic", "f", fmt.Errorf("handle: %w", panicking()), time.Unix(1, 0))
	if !strings.Contains(d.Stack, "panicking") {
		t.Errorf("stack %q", d.Stack)
	}
	if d := failure.NewDeath("attempts", "f", errors.New("no"), time.Unix(1, 0)); d.Stack != "" {
		t.Errorf("stack %q without a panic", d.Stack)
	}
}

// TestAnnouncerFallsBack checks that a copy that is too large becomes an announcement, and one that fails is
// omitted.
func TestAnnouncerFallsBack(t *testing.T) {
	p := &store.Parked{Consumer: "c", Identity: store.Identity{Source: "s", ID: "1"},
		Message: skald.Message{Topic: "t", Type: "x", Key: []byte("k"),
			Headers: []skald.Header{{Name: "x-attempt", Value: []byte("7")}}}, Attempts: 2,
		Dead: &store.Death{Kind: "age", At: time.Unix(1, 0)}}
	var asked []skald.Draft
	most := 0
	a := failure.Announcer{Topic: "dead", Copy: true, Headers: map[string]string{"x-original-id": ""},
		Logger: slog.New(slog.DiscardHandler),
		Complete: func(_ context.Context, ds []skald.Draft) ([]skald.Message, error) {
			if asked = append(asked, ds[0]); len(asked) > most {
				return []skald.Message{{Type: ds[0].Type}}, nil
			}
			return nil, errors.New("too large")
		}}
	if rows := a.Rows(t.Context(), p); len(rows) != 1 || rows[0].Type != "x" || len(asked[0].Headers) != 5 ||
		string(asked[0].Headers[0].Value) != "2" {
		t.Errorf("rows %v by %v", rows, asked)
	}
	asked, most = nil, 1
	if rows := a.Rows(t.Context(), p); len(rows) != 1 || rows[0].Type != failure.AnnouncementType ||
		string(asked[1].Key) != "k" {
		t.Errorf("rows %v by %v", rows, asked)
	}
	asked, most = nil, 3
	if rows := a.Rows(t.Context(), p); len(rows) != 0 || asked[2].Key != nil {
		t.Errorf("rows %v by %v", rows, asked)
	}
	if rows := (failure.Announcer{}).Rows(t.Context(), p); rows != nil {
		t.Errorf("rows %v for no topic", rows)
	}
}
