package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func id(name string) store.Identity { return store.Identity{Source: "/s", ID: name} }

func park(t *testing.T, ms *messages, name, key string, now time.Time) {
	t.Helper()
	p, err := ms.Park(&store.Park{Parked: store.Parked{Consumer: "c", Identity: id(name),
		Message: skald.Message{ID: name, Source: "/s", Key: []byte(key)}}}, false, now)
	if err != nil {
		t.Fatal(err)
	}
	p.Put(now)
}

func claim(ms *messages, now time.Time) (ids []string) {
	got := ms.Claim(store.ClaimRequest{Consumer: "c", Session: "s", Lease: time.Minute,
		ClaimSize: store.ClaimSize{Keys: 9}}, now)
	for _, p := range got.Parked {
		ids = append(ids, p.ID)
	}
	return ids
}

// TestAKeyIsInOrder checks that a message after a parked message of its key waits, and is claimed when the
// parked message is finished.
func TestAKeyIsInOrder(t *testing.T) {
	ms, now := newKept(), time.Now()
	park(t, ms, "1", "k", now)
	m := store.Mark{Consumer: "c", Identity: id("2"), Key: []byte("k"), KeyOrder: store.Arriving}
	if got := ms.Outcome(&m, nil); got != store.Behind {
		t.Errorf("the second of the key is %v", got)
	}
	park(t, ms, "2", "k", now)
	park(t, ms, "3", "other", now)
	if got := claim(ms, now); len(got) != 2 || got[0] != "1" || got[1] != "3" {
		t.Errorf("claimed are %v, want the first of each key", got)
	}
	change, err := ms.Finish(&store.Finish{Consumer: "c", Identity: id("1")})
	if err != nil {
		t.Fatal(err)
	}
	if got := claim(ms, now); len(got) != 0 {
		t.Errorf("before the commit %v are claimed", got)
	}
	change(now)
	if got := claim(ms, now); len(got) != 1 || got[0] != "2" {
		t.Errorf("claimed is %v, want what waited", got)
	}
}

func TestANewMessageIsKeptOnce(t *testing.T) {
	ms, now := newKept(), time.Now()
	park(t, ms, "1", "k", now)
	again := &store.Park{Parked: store.Parked{Consumer: "c", Identity: id("1")}}
	if _, err := ms.Park(again, false, now); !errors.Is(err, store.ErrLost) {
		t.Errorf("kept again: %v", err)
	}
	again.ID = "2"
	if _, err := ms.Park(again, true, now); !errors.Is(err, store.ErrLost) {
		t.Errorf("one that is finished is kept: %v", err)
	}
	if dead, there := ms.Find(markKey{Consumer: "c", Identity: id("1")}); dead || !there {
		t.Errorf("the first is there: %v, and dead: %v", there, dead)
	}
}
