package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestAlmostTooLarge: a saga whose state is full can fail, turn back and report that. More data is refused,
// with both numbers in the error.
func TestAlmostTooLarge(t *testing.T) {
	onEach(t, almostTooLarge[tx], almostTooLarge[*sql.Tx], almostTooLarge[pgx.Tx])
}

func almostTooLarge[TTx any](k *desk[TTx]) {
	undone := map[string]int{}
	policy := saga.Policy{Attempts: 3, InitialInterval: time.Millisecond}
	first := saga.Do("first", func(_ context.Context, _ TTx, r saga.Run[order]) (string, error) {
		n, err := strconv.Atoi(r.In.Lines[0])
		return strings.Repeat("x", n), err
	}, func(_ context.Context, _ TTx, r saga.Run[order], out string) error {
		if undone[r.Key] = len(out); r.Attempt == 1 {
			return errors.New(strings.Repeat("<", 2_000))
		}
		return nil
	}, saga.Retry(policy), saga.RetryUndo(policy))
	second := saga.Do("second", func(context.Context, TTx, saga.Run[order]) (string, error) {
		return "", errors.New("broken: " + strings.Repeat("<", 2_000))
	}, nil, saga.NoEffect(), saga.Retry(policy))
	k.d = saga.New("large", &saga.Options[order]{Key: orderID, MaxBytes: 900 << 10}, first, second)
	k.e = k.engine(k.db, metric.NewManualReader())
	k.begin(order{ID: "too large", Lines: []string{strconv.Itoa(900<<10 - 400)}},
		order{ID: "fits", Lines: []string{strconv.Itoa(850 << 10)}})
	for key, want := range map[string]struct {
		step, why string
		undone    int
	}{"too large": {"first", "at most 921600", 0}, "fits": {"second", "broken: <<<", 850 << 10}} {
		k.until(key, k.e)
		end, err := saga.Bind(k.e, k.d).Await(k.t.Context(), key)
		if err != nil || end.Done || end.Step != want.step || !strings.Contains(end.Reason, want.why) ||
			undone[key] != want.undone {
			k.t.Errorf("%s: it ended at %s, %.200s, %v; undone: %d bytes", key, end.Step, end.Reason, err,
				undone[key])
		}
	}
}

// TestLargeReplies: a reply with too large an output is no dead letter. The step took effect, so it is done
// without output, and is undone.
func TestLargeReplies(t *testing.T) {
	onEach(t, largeReplies[tx], largeReplies[*sql.Tx], largeReplies[pgx.Tx])
}

func largeReplies[TTx any](k *desk[TTx]) {
	k.d = parcelsUpTo(400 << 10)
	k.e = k.engine(k.db, metric.NewManualReader())
	for _, c := range []struct {
		o    order
		size int
		why  string
	}{{order{ID: "many", Lines: []string{"tea", "cups", "milk", "sugar"}}, 300 << 10, "at most 921600"},
		{order{ID: "one", Lines: []string{"tea"}}, 500 << 10, "at most 409600"}} {
		var replies []skald.Message
		for _, command := range k.begin(c.o) {
			m := k.reply(command, "packed", c.o.ID)
			m.Data = fmt.Appendf(nil, "%q", strings.Repeat("x", c.size))
			replies = append(replies, m)
		}
		k.take(replies...)
		undos := 0
		for commands := k.goOn(); len(commands) > 0; commands = k.goOn() {
			if commands[0].Type != "unpack" || undos > len(c.o.Lines) {
				k.t.Fatalf("its next command is %s, after %d undos", commands[0].Type, undos)
			}
			undos++
			k.take(k.reply(commands[0], "unpacked", c.o.ID))
		}
		end, err := saga.Bind(k.e, k.d).Await(k.t.Context(), c.o.ID)
		if err != nil || end.Done || end.Step != "pack" || !strings.Contains(end.Reason, c.why) ||
			undos != len(c.o.Lines) {
			k.t.Errorf("%s ended as %+v, %v, after %d undos", c.o.ID, end, err, undos)
		}
	}
	k.expect(map[string]int64{"taken": 9, "late": 1})
	if kept := k.kept(); len(kept) > 0 {
		k.t.Errorf("%d dead letters: %+v", len(kept), kept[0])
	}
	// of the pivot: the saga continues, and an alarm is raised
	k.take(k.reply(k.begin(order{ID: "final", Lines: []string{"tea"}})[0], "packed", "final"))
	m := k.reply(k.goOn()[0], "paid", "final")
	m.Data = fmt.Appendf(nil, "%q", strings.Repeat("x", 500<<10))
	k.take(m)
	k.goOn()
	if is, alarms := k.saga("final"), k.e.Health().Alarms; is.Status != "done" || alarms != 1 {
		k.t.Errorf("it is %s, with %d alarms", is.Status, alarms)
	}
}

// TestLargeSignal: the sender of a signal that is too large gets an error with both numbers, and may send
// another signal.
func TestLargeSignal(t *testing.T) {
	db := memstore.New(nil)
	word, other := saga.Signal[string]{Name: "word"}, saga.Signal[string]{Name: "other"}
	d := saga.New("d", &saga.Options[trip]{Key: tripKey, MaxBytes: 900 << 10},
		saga.Wait[trip]("other", other), saga.Wait[trip]("word", word))
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "a"})
	if out, err := other.Send(t.Context(), saga.Bind(e, d), "a", strings.Repeat("x", 600<<10)); err != nil ||
		out != saga.Taken && out != saga.Early {
		t.Fatal(out, err)
	}
	_, err := word.Send(t.Context(), saga.Bind(e, d), "a", strings.Repeat("x", 300<<10))
	if never := (*skald.PermanentError)(nil); !errors.As(err, &never) ||
		!strings.Contains(err.Error(), "at most 921600") {
		t.Errorf("a large one: %v", err)
	}
	if _, err := word.Send(t.Context(), saga.Bind(e, d), "a", "short"); err != nil {
		t.Error(err)
	}
	if end := await(t, e, d, "a"); !end.Done {
		t.Errorf("it ended as %+v", end)
	}
	if ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{}); err != nil ||
		len(ss[0].State) > 700<<10 {
		t.Error(err)
	}
}
