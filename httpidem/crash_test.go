package httpidem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// mortal is a database as one process uses it. The process dies at one call: this call may take effect, and
// all later calls have no effect. The database survives, and rolls back the open transactions of the process.
type mortal struct {
	store.Driver[mem]
	dies  int  // index of the call at which the process dies
	after bool // the call takes effect before the process dies
	calls int
	dead  bool
	units []store.Unit[mem]
}

var errDied = errors.New("the process died")

// at makes a call, unless the process is dead or dies at this call.
func (m *mortal) at(call func() error) error {
	if m.dead {
		return errDied
	}
	m.calls++
	if m.calls-1 != m.dies {
		return call()
	}
	m.dead = true
	if m.after {
		_ = call()
	}
	return errDied
}

func (m *mortal) Secret(ctx context.Context) (s []byte, err error) {
	err = m.at(func() (err error) { s, err = m.Driver.Secret(ctx); return err })
	return s, err
}

func (m *mortal) Seen(ctx context.Context, consumer string,
	ids []store.Identity) (v []store.Verdict, err error) {
	err = m.at(func() (err error) { v, err = m.Driver.Seen(ctx, consumer, ids); return err })
	return v, err
}

func (m *mortal) Reserve(ctx context.Context, r store.Reservation) (got store.Reserved, err error) {
	err = m.at(func() (err error) { got, err = m.Driver.Reserve(ctx, r); return err })
	return got, err
}

func (m *mortal) Apply(ctx context.Context, es ...store.Effect) (stood []bool, err error) {
	err = m.at(func() (err error) { stood, err = m.Driver.Apply(ctx, es...); return err })
	return stood, err
}

func (m *mortal) Begin(ctx context.Context, in store.Intake) (store.Unit[mem], error) {
	var u store.Unit[mem]
	err := m.at(func() (err error) {
		if u, err = m.Driver.Begin(ctx, in); err == nil {
			m.units = append(m.units, u)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return mortalUnit{u, m}, nil
}

type mortalUnit struct {
	store.Unit[mem]
	m *mortal
}

func (u mortalUnit) Commit(ctx context.Context, es ...store.Effect) error {
	return u.m.at(func() error { return u.Unit.Commit(ctx, es...) })
}

func (u mortalUnit) Rollback(ctx context.Context, instead ...store.Effect) (stood []bool, err error) {
	err = u.m.at(func() (err error) { stood, err = u.Unit.Rollback(ctx, instead...); return err })
	return stood, err
}

// bury rolls back the transactions that the dead process left open.
func (m *mortal) bury(t *testing.T) {
	t.Helper()
	for _, u := range m.units {
		_, _ = u.Rollback(t.Context()) // an ended transaction returns an error
	}
}

// A process dies at each call of the database, before the call takes effect and after it. If the client sends
// the request again to another process, it gets one answer, and the work is done once.
func TestCrashAtEveryCall(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for n, died := 0, true; died; n++ {
				died = crashHandle(t, n, after, refuses)
			}
		}
	}
}

func crashHandle(t *testing.T, n int, after, refuses bool) (died bool) {
	t.Helper()
	g := inMemory(t)
	dying := &mortal{Driver: g.db, dies: n, after: after}
	p := post{key: "k", body: `{"SKU":"tea"}`}
	endpoint := func(db store.Driver[mem]) http.Handler {
		s := &shop[mem]{ground: &ground[mem]{db, g.note, g.list}}
		if refuses {
			s.answer = func() (httpidem.Reply[view], error) {
				return httpidem.Reply[view]{}, httpidem.Refuse(402, "declined")
			}
		}
		return s.endpoint(quiet())
	}
	p.to(endpoint(dying))
	dying.bury(t)
	first := p.to(endpoint(g.db))
	second := p.to(endpoint(g.db))
	code, list := 201, "tea"
	if refuses {
		code, list = 402, ""
	}
	if first.Code != code || second.Code != code || first.Body.String() != second.Body.String() {
		t.Errorf("call %d, after it %v, refused %v: answered %d %s, then %d %s", n, after, refuses,
			first.Code, first.Body, second.Code, second.Body)
	}
	replayed(t, second, true)
	s := &shop[mem]{ground: g}
	s.wantList(t, "placed", list)
	s.wantOutbox(t, int64(len(strings.Fields(list))))
	return dying.dead
}

// The same test for Wrap, which has its effect outside of Skald's transaction. The work is done once. It is
// done twice only if the process died after the effect and before it stored the answer. All later answers are
// equal.
func TestWrapCrashAtEveryCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, died := 0, true; died; n++ {
			now := time.Now()
			db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
			dying := &mortal{Driver: db, dies: n, after: after}
			o := &old{}
			o.do = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, fmt.Sprint("run ", o.runs.Load()))
			}
			p := post{key: "k", body: "{}"}
			brief := quiet()
			brief.Lease = 300 * time.Millisecond // for so long the dead process tries to store its answer
			p.to(wrapped(dying, brief, o))
			before := o.runs.Load()
			now = now.Add(2 * time.Minute) // the lease of the dead process ends
			first, second := p.to(wrapped(db, impatient(), o)), p.to(wrapped(db, impatient(), o))
			answers(t, first, 200, fmt.Sprint("run ", o.runs.Load()))
			if first.Body.String() != second.Body.String() || before > 1 || o.runs.Load() > 2 {
				t.Errorf("call %d, after it %v: %s, then %s; %d runs, %d of them before", n, after,
					first.Body, second.Body, o.runs.Load(), before)
			}
			replayed(t, second, true)
			died = dying.dead
		}
	}
}
