package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

type (
	mtx = *memstore.Tx
	buy struct {
		ID, SKU         string
		Quantity, Cents int
	}
	kept struct {
		SKU      string
		Quantity int
	}
	paid  struct{ Number string }
	track struct{ Number string }
)

// cashier is a fake payment provider that deduplicates by key.
type cashier struct {
	charged, refunded map[string]int
	forgetful         bool // it does not deduplicate
}

func (t *cashier) reset() { t.charged, t.refunded = map[string]int{}, map[string]int{} }

func (t *cashier) view() string {
	sum := 0
	for key, cents := range t.charged {
		sum += cents - t.refunded[key]
	}
	return fmt.Sprintf("till %d\n", sum)
}

func (t *cashier) key(key string) string {
	if t.forgetful {
		return key + strconv.Itoa(len(t.charged)+len(t.refunded))
	}
	return key
}

// shopSaga is the saga of a shop. Tests change parts of it.
type shopSaga struct {
	till    *cashier
	reserve func(context.Context, mtx, saga.Run[buy]) (kept, error)
	release func(context.Context, mtx, saga.Run[buy], kept) error
	bill    saga.Request[mtx, buy, int, paid]
	refund  saga.UndoRequest[mtx, buy, paid, paid, bool]
	post    func(context.Context, mtx, saga.Run[buy]) (track, error)
	unpost  func(context.Context, mtx, saga.Run[buy], track) error
}

func addTo(tx mtx, key string, n int) error {
	old, _ := tx.Get(key)
	have, _ := strconv.Atoi(old)
	return tx.Put(key, strconv.Itoa(have+n))
}

func aShopSaga() *shopSaga {
	s := &shopSaga{till: &cashier{}}
	s.reserve = func(_ context.Context, tx mtx, r saga.Run[buy]) (kept, error) {
		return kept{r.In.SKU, r.In.Quantity}, addTo(tx, "stock "+r.In.SKU, -r.In.Quantity)
	}
	s.release = func(_ context.Context, tx mtx, _ saga.Run[buy], k kept) error {
		return addTo(tx, "stock "+k.SKU, k.Quantity)
	}
	at := call.NewProvider("till", nil)
	s.bill = saga.Request[mtx, buy, int, paid]{At: at,
		Intent: func(_ context.Context, _ mtx, r saga.Run[buy]) (int, error) { return r.In.Cents, nil },
		Do: func(_ context.Context, cents int, key string) (paid, error) {
			key = s.till.key(key)
			s.till.charged[key] = cents
			return paid{key}, nil
		},
		Settle: func(_ context.Context, tx mtx, r saga.Run[buy], o call.Outcome[paid]) error {
			if o.Refused {
				return nil
			}
			return addTo(tx, "paid", r.In.Cents)
		},
	}
	s.refund = saga.UndoRequest[mtx, buy, paid, paid, bool]{At: at,
		Intent: func(_ context.Context, _ mtx, _ saga.Run[buy], p paid) (paid, error) { return p, nil },
		Do: func(_ context.Context, p paid, _ string) (bool, error) {
			s.till.refunded[p.Number] = s.till.charged[p.Number]
			return true, nil
		},
		Settle: func(_ context.Context, tx mtx, r saga.Run[buy], _ call.Outcome[bool]) error {
			return addTo(tx, "paid", -r.In.Cents)
		},
	}
	s.post = func(_ context.Context, tx mtx, r saga.Run[buy]) (track, error) {
		return track{"t-" + r.Key}, addTo(tx, "posted", 1)
	}
	s.unpost = func(_ context.Context, tx mtx, _ saga.Run[buy], _ track) error {
		return addTo(tx, "posted", -1)
	}
	return s
}

func (s *shopSaga) check(t sagatest.T, more ...sagatest.Term) sagatest.Checked {
	hold := saga.Do("hold", s.reserve, s.release)
	charge := saga.CallWith("charge", s.bill, s.refund)
	book := saga.Command("book", skald.Event[string]{Topic: "vans", Type: "book"},
		func(r saga.Run[buy]) string { return hold.Output(r).SKU },
		saga.Reply(skald.Event[track]{Topic: "booked", Type: "booked"}),
		saga.UndoBy(skald.Event[string]{Topic: "vans", Type: "unbook"},
			func(r saga.Run[buy]) string { return r.Key },
			saga.Reply(skald.Event[track]{Topic: "booked", Type: "unbooked"})))
	approve := saga.Wait[buy]("approve", saga.Signal[string]{Name: "approved"})
	post := saga.Do("post", s.post, s.unpost)
	d := saga.New("order", &saga.Options[buy]{Key: func(b buy) string { return b.ID }, Deadline: time.Hour},
		hold, charge, book, approve, post)
	terms := append([]sagatest.Term{
		sagatest.Given(func(_ context.Context, tx mtx) error {
			return errors.Join(tx.Put("stock tea", "10"), tx.Put("paid", "0"), tx.Put("posted", "0"))
		}),
		sagatest.Outside(s.till.reset, s.till.view),
	}, more...)
	return sagatest.Check(t, d, buy{ID: "o-1", SKU: "tea", Quantity: 2, Cents: 400}, terms...)
}

// TestCheckOfASagaThatHolds: a correct saga of five steps, of all kinds but a child, passes with a fault at
// each point, and with a second fault while it turns back.
func TestCheckOfASagaThatHolds(t *testing.T) {
	began := time.Now()
	ends := map[string]int{}
	c := aShopSaga().check(t, sagatest.Promise(func(_ context.Context, tx mtx, end sagatest.End) error {
		ends[fmt.Sprint(end.Done, end.Why)]++
		sent, _ := tx.Get("posted")
		if (sent == "1") != end.Done {
			return fmt.Errorf("posted is %s", sent)
		}
		return nil
	}))
	if c.Runs < 150 {
		t.Errorf("only %d runs", c.Runs)
	}
	for _, end := range []string{"true", "falserejected", "falsefailed", "falsecancel", "falsedeadline"} {
		if ends[end] == 0 {
			t.Errorf("no saga ended as %s, of %v", end, ends)
		}
	}
	t.Logf("%d runs in %v, %v", c.Runs, time.Since(began), ends)
}

// TestCheckFindsLostUpdates: if one step writes a value that another step has read, a write of a rival is
// lost.
func TestCheckFindsLostUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		write func(tx mtx, have, n int) error
		want  string
	}{
		"it adds": {func(tx mtx, _, n int) error { return addTo(tx, "points", n) }, ""},
		"it writes what it read": {func(tx mtx, have, n int) error {
			return tx.Put("points", strconv.Itoa(have+n))
		}, "it ran with a rival"},
	} {
		t.Run(name, func(t *testing.T) {
			look := saga.Do("look", func(_ context.Context, tx mtx, _ saga.Run[buy]) (int, error) {
				old, _ := tx.Get("points")
				n, err := strconv.Atoi(old)
				return n, err
			}, nil, saga.NoEffect())
			add := saga.Do("add", func(_ context.Context, tx mtx, r saga.Run[buy]) (bool, error) {
				return true, c.write(tx, look.Output(r), r.In.Cents)
			},
				func(_ context.Context, tx mtx, r saga.Run[buy], _ bool) error {
					return addTo(tx, "points", -r.In.Cents)
				})
			last := saga.Do("last",
				func(context.Context, mtx, saga.Run[buy]) (bool, error) { return true, nil }, nil,
				saga.NoEffect())
			d := saga.New("points", &saga.Options[buy]{Key: func(b buy) string { return b.ID }},
				look, add, last)
			r := &recorder{T: t}
			sagatest.Check(r, d, buy{ID: "a", Cents: 5}, sagatest.Rival(buy{ID: "b", Cents: 7}),
				sagatest.Given(func(_ context.Context, tx mtx) error { return tx.Put("points", "0") }))
			if said := strings.Join(r.said, "\n"); (said == "") != (c.want == "") ||
				!strings.Contains(said, c.want) {
				t.Errorf("got %s", said)
			}
		})
	}
}

// TestCheckOfANewerDefinition: a saga that began with an older definition continues with the newer one,
// whose undo must handle the older effects.
func TestCheckOfANewerDefinition(t *testing.T) {
	reserve := func(_ context.Context, tx mtx, r saga.Run[buy]) (kept, error) {
		return kept{r.In.SKU, r.In.Quantity}, addTo(tx, "stock", -r.In.Quantity)
	}
	pay := func(_ context.Context, tx mtx, r saga.Run[buy]) (bool, error) {
		return true, addTo(tx, "paid", r.In.Cents)
	}
	unpay := func(_ context.Context, tx mtx, r saga.Run[buy], _ bool) error {
		return addTo(tx, "paid", -r.In.Cents)
	}
	key := func(b buy) string { return b.ID }
	look := saga.Do("look", func(context.Context, mtx, saga.Run[buy]) (bool, error) { return true, nil }, nil,
		saga.NoEffect())
	older := saga.New("order", &saga.Options[buy]{Key: key},
		saga.Do("hold", reserve, func(_ context.Context, tx mtx, _ saga.Run[buy], k kept) error {
			return addTo(tx, "stock", k.Quantity)
		}), saga.Do("pay", pay, unpay))
	for name, c := range map[string]struct {
		release func(context.Context, mtx, saga.Run[buy], kept) error
		maps    []saga.Mapping
		want    string
		refused bool
	}{
		"mapped": {func(_ context.Context, tx mtx, _ saga.Run[buy], k kept) error {
			return addTo(tx, "stock", k.Quantity)
		},
			[]saga.Mapping{{From: older.Hash(), Rename: map[string]string{"hold": "reserve"},
				Skip: []string{"look"}}}, "", false},
		"not mapped": {func(_ context.Context, tx mtx, _ saga.Run[buy], k kept) error {
			return addTo(tx, "stock", k.Quantity)
		}, nil, "", true},
		"the undo needs what the older one did not write": {
			func(_ context.Context, tx mtx, r saga.Run[buy], k kept) error {
				if _, ok := tx.Get("note " + r.Key); !ok {
					return errors.New("no note")
				}
				return errors.Join(tx.Delete("note "+r.Key), addTo(tx, "stock", k.Quantity))
			}, []saga.Mapping{{From: older.Hash(), Rename: map[string]string{"hold": "reserve"},
				Skip: []string{"look"}}}, "no note", false},
	} {
		t.Run(name, func(t *testing.T) {
			newReserve := func(ctx context.Context, tx mtx, r saga.Run[buy]) (kept, error) {
				k, err := reserve(ctx, tx, r)
				if c.want != "" {
					err = errors.Join(err, tx.Put("note "+r.Key, "reserved"))
				}
				return k, err
			}
			newer := saga.New("order", &saga.Options[buy]{Key: key, Mappings: c.maps},
				saga.Do("reserve", newReserve, c.release), look, saga.Do("pay", pay, unpay))
			r := &recorder{T: t}
			got := sagatest.Check(r, newer, buy{ID: "a", Quantity: 1, Cents: 5}, sagatest.Older(older),
				sagatest.Given(func(_ context.Context, tx mtx) error {
					return errors.Join(tx.Put("stock", "9"), tx.Put("paid", "0"))
				}))
			if said := strings.Join(r.said, "\n"); (said == "") != (c.want == "") ||
				!strings.Contains(said, c.want) || (got.Refused > 0) != c.refused {
				t.Errorf("%d are refused, got %s", got.Refused, said)
			}
		})
	}
}

// TestCheckOfARenamedCall: a refund uses the key of its call, even after the step of the call was renamed.
func TestCheckOfARenamedCall(t *testing.T) {
	p, paid := call.NewProvider("bank", nil), map[string]bool{}
	define := func(name string, maps ...saga.Mapping) *saga.Definition[buy] {
		pay := saga.CallWith(name, saga.Request[mtx, buy, int, bool]{At: p,
			Intent: func(_ context.Context, _ mtx, r saga.Run[buy]) (int, error) { return r.In.Cents, nil },
			Do: func(_ context.Context, _ int, key string) (bool, error) {
				paid[key] = true
				return true, nil
			},
			LookUp: func(_ context.Context, _ int, key string) (bool, bool, error) {
				return true, paid[key], nil
			}},
			saga.UndoRequest[mtx, buy, bool, string, bool]{At: p,
				Intent: func(_ context.Context, _ mtx, r saga.Run[buy], _ bool) (string, error) {
					return r.ForwardKey(), nil
				},
				Do: func(_ context.Context, of, _ string) (bool, error) {
					delete(paid, of)
					return true, nil
				},
				LookUp: func(_ context.Context, of, _ string) (bool, bool, error) {
					return true, !paid[of], nil
				}})
		tell := saga.Do("tell",
			func(_ context.Context, _ mtx, r saga.Run[buy]) (bool, error) { return pay.Output(r), nil }, nil,
			saga.NoEffect())
		return saga.New("order", &saga.Options[buy]{Key: func(b buy) string { return b.ID }, Mappings: maps},
			pay, tell)
	}
	older := define("pay")
	newer := define("charge", saga.Mapping{From: older.Hash(), Rename: map[string]string{"pay": "charge"}})
	sagatest.Check(t, newer, buy{ID: "a", Cents: 5}, sagatest.Older(older),
		sagatest.Outside(func() { clear(paid) },
			func() string { return fmt.Sprint(len(paid), " payments\n") }))
}

// recorder is a T that only records failures.
type recorder struct {
	sagatest.T
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Logf(string, ...any) {}

// TestCheckFindsSeededBugs: each of these bugs occurred in real code. Check finds it, and prints the
// schedule.
func TestCheckFindsSeededBugs(t *testing.T) {
	bugs := map[string]struct {
		seed func(s *shopSaga)
		want string
	}{
		"the undo undoes too much": {func(s *shopSaga) {
			s.release = func(_ context.Context, tx mtx, _ saga.Run[buy], k kept) error {
				return addTo(tx, "stock "+k.SKU, k.Quantity+1)
			}
		}, "stock tea = 11"},
		"the undo forgets a row": {func(s *shopSaga) {
			s.release = func(context.Context, mtx, saga.Run[buy], kept) error { return nil }
		}, "stock tea = 8"},
		"the effect stands outside of the transaction": {func(s *shopSaga) {
			sent := 0
			post, reset := s.post, s.till.reset
			s.post = func(ctx context.Context, tx mtx, r saga.Run[buy]) (track, error) {
				sent++
				_, err := post(ctx, tx, r)
				return track{strconv.Itoa(sent)}, errors.Join(err, tx.Put("mails", strconv.Itoa(sent)))
			}
			_ = reset
		}, "two runs without a fault differ"},
		"the provider does not know keys": {func(s *shopSaga) { s.till.forgetful = true }, "till"},
		"the key is another one each time": {func(s *shopSaga) {
			n := 0
			do := s.bill.Do
			s.bill.Do = func(ctx context.Context, cents int, key string) (paid, error) {
				n++
				return do(ctx, cents, key+strconv.Itoa(n))
			}
		}, "till"},
		"the undo reads what was never written": {func(s *shopSaga) {
			s.unpost = func(_ context.Context, tx mtx, _ saga.Run[buy], _ track) error { return nil }
			s.release = func(_ context.Context, tx mtx, r saga.Run[buy], k kept) error {
				if sent, _ := tx.Get("track " + r.Key); sent == "" {
					return errors.New("no track")
				}
				return addTo(tx, "stock "+k.SKU, k.Quantity)
			}
		}, "the undo of hold fails each time: no track"},
		"the undo refuses": {func(s *shopSaga) {
			s.release = func(context.Context, mtx, saga.Run[buy], kept) error {
				return skald.Reject(errors.New("too late"))
			}
		}, "the undo of hold fails each time"},
		"the refund does not refund": {func(s *shopSaga) {
			s.refund.Do = func(context.Context, paid, string) (bool, error) { return true, nil }
		}, "till 400"},
		"the refund is settled before it is made": {func(s *shopSaga) {
			intent := s.refund.Intent
			s.refund.Intent = func(ctx context.Context, tx mtx, r saga.Run[buy], p paid) (paid, error) {
				delete(s.till.charged, p.Number)
				s.till.charged["-"+p.Number] = 1
				return intent(ctx, tx, r, p)
			}
		}, "till"},
		"the answer is settled twice as much": {func(s *shopSaga) {
			settle := s.bill.Settle
			s.bill.Settle = func(ctx context.Context, tx mtx, r saga.Run[buy], o call.Outcome[paid]) error {
				return errors.Join(settle(ctx, tx, r, o), settle(ctx, tx, r, o))
			}
		}, "paid = 400"},
		"a refusal is settled as an answer": {func(s *shopSaga) {
			s.bill.Settle = func(_ context.Context, tx mtx, r saga.Run[buy], _ call.Outcome[paid]) error {
				return addTo(tx, "paid", r.In.Cents)
			}
		}, "paid = 400"},
		"a panic in the undo": {func(s *shopSaga) {
			s.unpost = func(context.Context, mtx, saga.Run[buy], track) error { return nil }
			s.release = func(context.Context, mtx, saga.Run[buy], kept) error { panic("nil map") }
		}, "nil map"},
		"a step depends on the attempt": {func(s *shopSaga) {
			s.reserve = func(_ context.Context, tx mtx, r saga.Run[buy]) (kept, error) {
				return kept{r.In.SKU, r.In.Quantity}, addTo(tx, "stock "+r.In.SKU, -r.In.Quantity*r.Attempt)
			}
		}, "stock tea = 6"},
		"the undo goes by the input, not by what was done": {func(s *shopSaga) {
			s.reserve = func(_ context.Context, tx mtx, r saga.Run[buy]) (kept, error) {
				return kept{r.In.SKU, 1}, addTo(tx, "stock tea", -1)
			}
			s.release = func(_ context.Context, tx mtx, r saga.Run[buy], _ kept) error {
				return addTo(tx, "stock tea", r.In.Quantity)
			}
		}, "stock tea = 11"},
		"it never ends well": {func(s *shopSaga) {
			s.post = func(context.Context, mtx, saga.Run[buy]) (track, error) {
				return track{}, skald.Reject(errors.New("no van"))
			}
		}, `without a fault, it turns back at "post"`},
	}
	for _, name := range slices.Sorted(maps.Keys(bugs)) {
		t.Run(name, func(t *testing.T) {
			s, r := aShopSaga(), &recorder{T: t}
			bugs[name].seed(s)
			s.check(r)
			said := strings.Join(r.said, "\n")
			if !strings.Contains(said, bugs[name].want) || !strings.Contains(said, "SAGATEST_REPLAY=") {
				t.Errorf("want %q, got %.2000s", bugs[name].want, said)
			}
		})
	}
}
