package httpidem

import (
	"testing"
	"time"

	"github.com/skald-go/skald/once"
)

// A last is a cache that remembers one entry, for a day.
type last struct {
	once.Cache
	entry once.Entry
}

func (*last) TTL() time.Duration { return 24 * time.Hour }

func (l *last) Put(e ...once.Entry) { l.entry = e[0] }

// An answer that was read, and is kept for as long as marks are, may be about to be deleted: it is cached for
// a minute. One that was just stored is cached for as long as the cache remembers.
func TestAnswerOfUnknownAge(t *testing.T) {
	sealed, err := once.Request{Scope: "http:orders", Key: "k"}.Seal(make([]byte, 32), "run")
	if err != nil {
		t.Fatal(err)
	}
	at := &slot{sealed, time.Now()}
	for read, stays := range map[bool]time.Duration{true: time.Minute, false: 24 * time.Hour} {
		kept := &last{}
		(&front{cache: kept}).put(at, once.Answer{Result: "done"}, read)
		for after, want := range map[time.Duration]bool{stays - time.Second: true,
			stays + time.Second: false} {
			if _, hit := sealed.Open(kept.entry.Value, at.began.Add(after)); hit != want {
				t.Errorf("read: %t, after %v: %t", read, after, hit)
			}
		}
	}
}
