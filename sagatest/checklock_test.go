package sagatest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// transfer takes cents from an account. One step reads the balance, and another step writes the new one.
type transfer struct {
	ID, From string
	Cents    int
}

func readSavings(_ context.Context, tx mtx, r saga.Run[transfer]) (int, error) {
	old, _ := tx.Get(r.In.From)
	return strconv.Atoi(old)
}

// transfers returns a saga of the named steps in order. "lock" locks the account, "lock-own" an entity that
// no other saga uses.
func transfers(names string, opts ...saga.Option) *saga.Definition[transfer] {
	read := saga.Do("read", readSavings, nil, saga.NoEffect())
	all := map[string]saga.StepOf[transfer]{
		"read": read,
		"lock": saga.Lock("lock", func(r saga.Run[transfer]) []store.Lock {
			return []store.Lock{{Space: "account", Key: r.In.From}}
		}, opts...),
		"lock-own": saga.Lock("lock", func(r saga.Run[transfer]) []store.Lock {
			return []store.Lock{{Space: "transfer", Key: r.Key}}
		}, opts...),
		"fee": saga.Do("fee", func(_ context.Context, tx mtx, r saga.Run[transfer]) (bool, error) {
			return true, addTo(tx, r.In.From, -1)
		}, func(_ context.Context, tx mtx, r saga.Run[transfer], _ bool) error {
			return addTo(tx, r.In.From, 1)
		}),
		"look": saga.Do("look", func(_ context.Context, tx mtx, r saga.Run[transfer]) (bool, error) {
			return true, tx.Put("look "+r.Key, "seen")
		}, func(_ context.Context, tx mtx, r saga.Run[transfer], _ bool) error {
			return tx.Delete("look " + r.Key)
		}),
		"write": saga.Do("write", func(_ context.Context, tx mtx, r saga.Run[transfer]) (int, error) {
			return read.Output(r), tx.Put(r.In.From, strconv.Itoa(read.Output(r)-r.In.Cents))
		}, func(_ context.Context, tx mtx, r saga.Run[transfer], was int) error {
			return tx.Put(r.In.From, strconv.Itoa(was))
		}),
		"tell": saga.Do("tell", func(_ context.Context, tx mtx, r saga.Run[transfer]) (bool, error) {
			return true, tx.Put("letter "+r.Key, "dear customer")
		}, nil, saga.Pivot()),
	}
	var steps []saga.StepOf[transfer]
	for name := range strings.FieldsSeq(names) {
		steps = append(steps, all[name])
	}
	return saga.New("transfer", &saga.Options[transfer]{Key: func(t transfer) string { return t.ID },
		Deadline: time.Hour}, steps...)
}

func checkTransfers(t sagatest.T, d *saga.Definition[transfer]) sagatest.Checked {
	return sagatest.Check(t, d, transfer{"one", "savings", 30},
		sagatest.Rival(transfer{"two", "savings", 50}),
		sagatest.Given(func(_ context.Context, tx mtx) error { return tx.Put("savings", "100") }),
		sagatest.Promise(func(_ context.Context, tx mtx, end sagatest.End) error {
			if _, told := tx.Get("letter " + end.Key); told != end.Done {
				return fmt.Errorf("a letter was written: %v, and the transfer is done: %v", told, end.Done)
			}
			return nil
		}))
}

// TestCheckOfALock: a rival that runs between a read and the write loses its own write. If the account is
// locked before, the rival waits in the queue, and no write is lost after any fault.
func TestCheckOfALock(t *testing.T) {
	const lost = "it ran with a rival"
	for steps, want := range map[string]string{
		"read write tell":           lost,
		"lock read write tell":      "",
		"look lock read write tell": "",
		"read lock write tell":      lost,
		"lock-own read write tell":  lost,
		"fee lock read write tell":  lost, // the fee of the rival is taken without a lock
	} {
		t.Run(steps, func(t *testing.T) {
			r := &recorder{T: t}
			c := checkTransfers(r, transfers(steps, saga.Timeout(time.Minute)))
			if said := strings.Join(r.said, "\n"); (said == "") != (want == "") ||
				!strings.Contains(said, want) {
				t.Errorf("got %s", said)
			}
			if c.Runs < 40 || c.Runs > 190 {
				t.Errorf("%d runs", c.Runs)
			}
		})
	}
}

// TestReplayOfALock: a printed schedule can be replayed even if the saga waits for its rival, or the rival
// for the saga.
func TestReplayOfALock(t *testing.T) {
	const ahead = "   1  run look\n   2  run lock of lock\n   3  run read\n"
	const behind = "   1  run look\n   2  run lock of lock    <- beside    : the rival holds entities\n"
	for schedule, want := range map[string]string{
		"beside@4": ahead + "   4  run write    <- beside    : the rival waits in line\n   5  run tell\n",
		"beside@4,rejects@5": ahead + "   4  run write    <- beside    : the rival waits in line\n" +
			"   5  run tell    <- rejects\n   6  undo write    : the rival continues\n   7  undo look\n",
		"beside@2": behind + "   3  wait in line at lock\n   4  run lock of lock\n   5  run read\n" +
			"   6  run write\n   7  run tell\n",
		"beside@2,cancels@3":  behind + "   3  wait in line at lock    <- cancels\n   4  undo look\n",
		"beside@2,deadline@3": behind + "   3  wait in line at lock    <- deadline\n   4  undo look\n",
		"beside@2,late@3": behind + "   3  wait in line at lock    <- late    : it gets its entities only after its Timeout\n" +
			"   4  undo look\n",
		"dies@2": "   1  run look\n   2  run lock of lock    <- dies\n   3  run lock of lock\n   4  run read\n" +
			"   5  run write\n   6  run tell\n",
		"gives-up@2": "   1  run look\n   2  run lock of lock    <- gives-up\n   3  undo look\n",
		"overtook@2": "   1  run look\n   2  run lock of lock    <- overtook\n   3  undo look\n",
	} {
		t.Setenv(sagatest.Replay, schedule)
		r := &loud{recorder{T: t}}
		checkTransfers(r, transfers("look lock read write tell", saga.Timeout(time.Minute)))
		if said, want := strings.Join(r.said, "\n"), "schedule "+schedule+"\n"+want; said != want {
			t.Errorf("got\n%s\nwant\n%s", said, want)
		}
	}
}

// TestCheckFindsALockThatNamesOthers: Check finds a Lock that names other entities in a second call, and a
// Lock that panics.
func TestCheckFindsALockThatNamesOthers(t *testing.T) {
	n := 0
	for want, name := range map[string]func() string{
		`named the entities [{account 1 0}], and in another call`: func() string {
			n++
			return strconv.Itoa(n)
		},
		`turns back at "lock": failed: handler panicked: no account`: func() string { panic("no account") },
		"key of an entity": func() string { return "" },
	} {
		r := &recorder{T: t}
		d := saga.New("lock", &saga.Options[transfer]{Key: func(t transfer) string { return t.ID }},
			saga.Lock("lock", func(saga.Run[transfer]) []store.Lock {
				return []store.Lock{{Space: "account", Key: name()}}
			}))
		sagatest.Check(r, d, transfer{ID: "one"},
			sagatest.Outside(func() { n = 0 }, nil))
		if said := strings.Join(r.said, "\n"); !strings.Contains(said, want) {
			t.Errorf("want %q, got %s", want, said)
		}
	}
}

// TestCheckRefusesAnInvalidRival: Check refuses a rival that is the first saga itself or of another
// definition.
func TestCheckRefusesAnInvalidRival(t *testing.T) {
	nothing := sagatest.View(func(context.Context, mtx) (string, error) { return "", nil })
	for want, in := range map[string]any{
		`the input of Rival has the key of the saga, "one"`: transfer{"one", "savings", 50},
		"the input of Rival: ":                              "two",
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, want) {
					t.Errorf("it says %s, want %s", said, want)
				}
			}()
			sagatest.Check(&deadly{recorder{T: t}}, transfers("lock read write tell"),
				transfer{"one", "savings", 30}, sagatest.Rival(in), nothing)
		}()
	}
}
