package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// TestNumbersGivenOutTwice checks a sequence that is behind the stored rows. It would return a number
// again: the place of another message of the key, or the key of its answer. Consumers are refused, at each
// start and each time they get shards, until the recover raises the sequence and records it.
func TestNumbersGivenOutTwice(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, c := range map[string]struct{ sequence, without string }{
		"places":               {sequence: "skald_parked_place_seq"},
		"quarantine":           {sequence: "skald_quarantine_number_seq"},
		"audit":                {sequence: "skald_audit_seq_seq"},
		"answers":              {sequence: "skald_arrival"},
		"marks without answer": {"skald_arrival", "TRUNCATE {skald_answer}"},
	} {
		t.Run(name, func(t *testing.T) {
			b.clear(t)
			ctx := t.Context()
			s := b.store(t)
			drawNumbers(ctx, t, s)
			if err := s.Check(ctx, store.App); err != nil {
				t.Fatal(err)
			}
			if c.without != "" {
				b.exec(t, c.without)
			}
			b.exec(t, "ALTER SEQUENCE {"+c.sequence+"} RESTART")
			_, occupied := s.SyncConsumer(ctx, store.SyncRequest{Consumer: "c", Take: true, Session: "life",
				Stamp: "note", Checkpoints: []store.Checkpoint{{Partition: "t/0", Origin: "one",
					Position: 1}}})
			for what, err := range map[string]error{"check": s.Check(ctx, store.App), "occupy": occupied} {
				var moved *store.MovedError
				if !errors.As(err, &moved) || !store.Incurable(err) || !strings.Contains(err.Error(),
					c.sequence) || !strings.Contains(err.Error(), "skald outbox recover") {
					t.Fatalf("%s returned %v", what, err)
				}
			}
			if n := one[int64](t, b, "SELECT count(*) FROM {skald_checkpoint}"); n != 0 {
				t.Errorf("%d shards are occupied all the same", n)
			}
			note := &store.Audit{Author: "ann", Reason: "switched over", Action: "recover"}
			look, err := s.Recover(ctx, nil)
			if done, other := s.Recover(ctx, note); err != nil || other != nil || look.Moved == "" ||
				done != (store.Recovered{Moved: look.Moved, Raised: 1}) {
				t.Fatalf("Recover returned %+v, %v; without a note it returned %+v, %v", done, other, look, err)
			}
			if err := s.Check(ctx, store.App); err != nil {
				t.Fatal(err)
			}
			if again, err := s.Recover(ctx, note); err != nil || again != (store.Recovered{}) {
				t.Errorf("the second Recover returned %+v, %v", again, err)
			}
			if noted, err := s.Audits(ctx, store.AuditQuery{Limit: 1}); err != nil || len(noted) != 1 ||
				noted[0].Action != "recover" || noted[0].Author != "ann" {
				t.Errorf("noted is %+v, %v", noted, err)
			}
			drawNumbers(ctx, t, s)
		})
	}
}

// TestOutboxNumbersGivenOutTwice checks that a relay is refused if the outbox has rows above its sequence.
func TestOutboxNumbersGivenOutTwice(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	for range 2 {
		b.exec(t, strings.Replace(plainInsert, "$1", "'1'", 1))
	}
	if err := s.Check(ctx, store.Relay); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "ALTER SEQUENCE {skald_outbox_seq_seq} RESTART")
	var moved *store.MovedError
	if err := s.Check(ctx, store.Relay); !errors.As(err, &moved) ||
		!strings.Contains(err.Error(), "the sequence has only reached") ||
		!strings.Contains(err.Error(), "skald outbox recover") {
		t.Errorf("Check returned %v", err)
	}
	note := &store.Audit{Author: "ann", Reason: "switched over", Action: "recover"}
	if _, err := s.Recover(ctx, note); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx, store.Relay); err != nil {
		t.Error(err)
	}
}

// TestNumbersThatGoOnElsewhere checks that sequences that were set beyond the stored rows are accepted and
// stay.
func TestNumbersThatGoOnElsewhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	drawNumbers(ctx, t, s)
	sequences := []string{"skald_parked_place_seq", "skald_quarantine_number_seq", "skald_audit_seq_seq",
		"skald_arrival"}
	for _, name := range sequences {
		b.exec(t, "ALTER SEQUENCE {"+name+"} RESTART WITH 1000")
	}
	if done, err := s.Recover(ctx, &store.Audit{Author: "ann", Action: "recover"}); err != nil ||
		done != (store.Recovered{}) || s.Check(ctx, store.App) != nil {
		t.Errorf("Recover returned %+v, %v, and Check %v", done, err, s.Check(ctx, store.App))
	}
	for _, name := range sequences {
		if n := one[int64](t, b, "SELECT nextval('{"+name+"}')"); n != 1000 {
			t.Errorf("%s has come to %d", name, n)
		}
	}
}

// TestArrivalsInBetween checks a sequence in the middle of marks without answers, which no single mark
// shows: the recover reads all marks.
func TestArrivalsInBetween(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	drawNumbers(ctx, t, s)
	b.exec(t, "TRUNCATE {skald_answer}")
	top := one[int64](t, b, "SELECT max(arrival) FROM {skald_keys}")
	b.exec(t, fmt.Sprintf("ALTER SEQUENCE {skald_arrival} RESTART WITH %d", top))
	look, err := s.Recover(ctx, nil)
	if err != nil || !strings.Contains(look.Moved, "skald_arrival") {
		t.Fatalf("a Recover without a note returned %+v, %v", look, err)
	}
	if done, err := s.Recover(ctx, &store.Audit{Author: "ann", Action: "recover"}); err != nil ||
		done.Raised != 1 {
		t.Errorf("Recover returned %+v, %v", done, err)
	}
	if n := one[int64](t, b, "SELECT nextval('{skald_arrival}')"); n != top+1 {
		t.Errorf("the next mark is number %d behind %d", n, top)
	}
}

// drawNumbers uses each sequence twice.
func drawNumbers(ctx context.Context, t *testing.T, s *Store) {
	t.Helper()
	for range 2 {
		for _, id := range []string{uuid7.New(time.Now()), "no uuid " + uuid7.New(time.Now())} {
			m := aMark()
			m.ID = id
			m.Result = "1"
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(ctx, store.Effect{Answer: &m}); err != nil {
				t.Fatal(err)
			}
		}
		m := aMark()
		m.ID = uuid7.New(time.Now())
		parked := &store.Park{Parked: store.Parked{Consumer: "c", Identity: m.Identity,
			Message: aMessage("k"), Attempts: 1}}
		apart := &store.Quarantined{Consumer: "c", Identity: m.Identity, Why: store.Conflict,
			Message: aMessage("k")}
		if _, err := s.Apply(ctx, store.Effect{Park: parked}, store.Effect{Quarantine: apart},
			store.Effect{Audit: &store.Audit{Author: "ann", Action: "release"}}); err != nil {
			t.Fatal(err)
		}
	}
}
