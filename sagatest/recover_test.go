package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// moved is a world whose database goes back in time twice, while messages are written, relayed and deleted.
// An operator recovers it.
type moved[TTx any] struct {
	w    *sagatest.World
	raw  store.Driver[TTx]
	bus  *membroker.Broker
	sent int // rows that the writer knows to be stored
	turn int
	// anew is the turn in which the topic is deleted and recreated, or 0. If it is not 0, no row is deleted,
	// and all messages must be in the new topic.
	anew int
}

const (
	movedRows = 14
	movedKeys = 3
)

// buildMoved returns a world of type moved over the databases of open. The function session returns the view
// of one process.
func buildMoved[TTx any](open func(w *sagatest.World) (store.Driver[TTx], error),
	session func(store.Driver[TTx], *sagatest.Process) store.Driver[TTx],
	anew int) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		raw, err := open(w)
		if err != nil {
			return err
		}
		m := &moved[TTx]{w: w, raw: raw, anew: anew,
			bus: membroker.New(&membroker.Options{Partitions: 1, Retain: -1})}
		if err := m.bus.MakeTopics(context.Background(), 1, "said"); err != nil {
			return err
		}
		for _, name := range []string{"writer", "relay-1", "relay-2", "operator"} {
			w.Process(name, func(p *sagatest.Process) error {
				d := sagatest.CrashDriver(p, session(raw, p))
				switch name {
				case "writer":
					p.Step(step(func(ctx context.Context) (bool, error) { return m.write(ctx, d) }))
				case "operator":
					p.Step(step(func(ctx context.Context) (bool, error) { return m.operate(ctx, d) }))
				default:
					r := relay.New(d, sagatest.CrashBroker(p, m.bus.Client()), &relay.Options{
						Now: w.Now, Owner: name, Logger: slog.New(slog.DiscardHandler),
						RetryFirst: time.Microsecond, RetryMost: time.Millisecond,
					})
					p.Step(step(func(ctx context.Context) (bool, error) {
						busy, err := r.Step(ctx)
						var away *store.MovedError
						if errors.As(err, &away) {
							// A real relay has ended, and restarts after the recovery.
							return false, nil
						}
						return busy, err
					}))
				}
				return nil
			})
		}
		w.Finally("published", m.published)
		return nil
	}
}

type step func(ctx context.Context) (bool, error)

func (s step) Step(ctx context.Context) (bool, error) { return s(ctx) }

func movedID(i int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", i+1) }

// write writes messages one after the other. It repeats each one, with the same id, until it is stored.
func (m *moved[TTx]) write(ctx context.Context, d store.Driver[TTx]) (bool, error) {
	if m.sent == movedRows {
		return false, nil
	}
	msg := skald.Message{
		ID: movedID(m.sent), Type: "said", Topic: "said", Key: []byte(fmt.Sprint("k", m.sent%movedKeys)),
		ContentType: "application/json", Data: []byte("1"), Time: m.w.Now(),
	}
	stands, err := d.Apply(ctx, store.Effect{Rows: []skald.Message{msg}})
	if err == nil && !stands[0] {
		err = store.ErrLost
	}
	if err == nil {
		m.sent++
	}
	return true, err
}

// operate detects twice that the database moved, recovers it, and deletes published rows.
func (m *moved[TTx]) operate(ctx context.Context, d store.Driver[TTx]) (bool, error) {
	if m.turn++; m.turn == 6 || m.turn == 11 {
		_, err := m.raw.Lease(ctx, store.LeaseRequest{Owner: "ghost", Session: "1", TTL: time.Nanosecond,
			LastKnown: []store.Shard{{ID: 0, Epoch: 1 << 40, Token: "t"}}})
		if !errors.Is(err, store.ErrMoved) {
			return false, fmt.Errorf("the ghost's lease: %w", err)
		}
	}
	if m.turn == m.anew {
		if err := errors.Join(m.bus.RemoveTopics(ctx, "said"), m.bus.MakeTopics(ctx, 1, "said")); err != nil {
			return false, fmt.Errorf("make the topic anew: %w", err)
		}
	}
	var did store.Maintained
	if m.anew == 0 {
		var err error
		if did, err = d.Maintain(ctx,
			store.Maintain{Keep: store.Retention{Outbox: time.Nanosecond}}); err != nil {
			return false, err
		}
	}
	look, err := d.Recover(ctx, nil)
	if err != nil || look.Moved == "" || m.turn%3 != 0 { // the operator takes some time
		return m.turn < 15 || did.Rows != 0 || look.Moved != "", err
	}
	_, err = d.Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
	return true, err
}

// published checks that all written messages were published, with the first deliveries of each key in order.
func (m *moved[TTx]) published() (err error) {
	ctx := context.Background()
	sub, err := m.bus.Client().Subscribe(ctx, broker.Group{Name: "reader", Topics: []string{"said"}})
	if err != nil {
		return err
	}
	got, err := sub.Receive(ctx, 1_000_000)
	if err != nil {
		return err
	}
	came, seen := make([][]string, movedKeys), map[string]bool{}
	for i := range got.Deliveries {
		d := &got.Deliveries[i]
		if !seen[d.ID] {
			seen[d.ID] = true
			k := int(d.Key[1] - '0')
			came[k] = append(came[k], d.ID)
		}
	}
	for i := range movedRows {
		if !seen[movedID(i)] {
			err = errors.Join(err, fmt.Errorf("%d never came", i))
		}
	}
	for k, ids := range came {
		if !slices.IsSorted(ids) {
			err = errors.Join(err, fmt.Errorf("of key %d came %s", k, strings.Join(ids, " ")))
		}
	}
	if m.sent < movedRows {
		err = errors.Join(err, fmt.Errorf("only %d were said", m.sent))
	}
	return err
}

// TestExploreRecover injects each fault, in memory, into recovery, ticks, pages, leases and retention.
// Interleaving 5.
func TestExploreRecover(t *testing.T) {
	sagatest.Explore(t, movedInMemory(0), &sagatest.Options{Pairs: true, Sample: movedSample(), Failures: 3})
}

// TestExploreRecoverWithARecreatedTopic adds a topic that is recreated just before a recovery, between two
// recoveries, and after them. So a recovery and a replay each find the other half done. The new topic gets
// all stored messages in order.
// Interleaving 5.
func TestExploreRecoverWithARecreatedTopic(t *testing.T) {
	for _, turn := range []int{5, 7, 9, 12} {
		t.Run(fmt.Sprint("turn ", turn), func(t *testing.T) {
			sagatest.Explore(t, movedInMemory(turn), &sagatest.Options{Pairs: true, Sample: several(40, 1200),
				Failures: 3})
		})
	}
}

func movedInMemory(anew int) func(w *sagatest.World) error {
	return buildMoved(
		func(w *sagatest.World) (store.Driver[*memstore.Tx], error) {
			return memstore.New(&memstore.Options{Source: "/moved", Shards: 2, Now: w.Now,
				Wait: time.Millisecond}), nil
		},
		func(d store.Driver[*memstore.Tx], p *sagatest.Process) store.Driver[*memstore.Tx] {
			s := d.(*memstore.Store).Session()
			p.OnCrash(s.Kill)
			return s
		}, anew)
}

// movedSample returns the number of schedules: of singles, which are fewer, and of pairs.
func movedSample() int { return several(150, 1200) }

// TestExploreRecoverOnSQLite is the same on SQLite, where a recovery begins at the oldest row.
// Interleaving 5.
func TestExploreRecoverOnSQLite(t *testing.T) {
	file := files(t, "")
	open := func(w *sagatest.World) (store.Driver[*sql.Tx], error) {
		db, err := file(w)
		if err != nil {
			return nil, err
		}
		return sqlitestore.New(db, nil), nil
	}
	sagatest.Explore(t, buildMoved(open,
		func(d store.Driver[*sql.Tx], _ *sagatest.Process) store.Driver[*sql.Tx] { return d }, 0),
		&sagatest.Options{
			Sample: sampleOfReal(20, 2000), Failures: 3,
			Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter,
				sagatest.PartFirst, sagatest.PartLast},
		})
}
