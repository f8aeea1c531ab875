package httpidem

import (
	"testing"
	"time"

	"github.com/skald-go/skald/once"
)

// last is a cache that stores only the last entry, with a TTL of a day.
type last struct {
	once.Cache
	entry once.Entry
}

func (*last) TTL() time.Duration { return 24 * time.Hour }

func (l *last) Put(e ...once.Entry) { l.entry = e[0] }

// If an answer was read, its mark may be deleted soon. So the endpoint caches it for one minute only. If this
// request stored the answer, the endpoint caches it for the TTL of the cache.
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
