package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/memstore"
)

// Handlers that ignore their contexts get replacements, as many as there are workers; then the consumer says
// that nothing is handled. No message is begun twice, and no key passes its stuck message.
func TestHandlersThatIgnoreTheirContexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.db = memstore.New(nil) // by the true clock
	const workers = 2
	release := make(chan struct{})
	var mu sync.Mutex
	begun := map[string]int{}
	in := w.inbox(&inbox.Options{Workers: workers, Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond},
		Retry: inbox.Retry{First: time.Millisecond, Most: time.Millisecond}},
		func(_ context.Context, t tx, m skald.Received[string]) error {
			mu.Lock()
			begun[m.Value]++
			mu.Unlock()
			if strings.HasPrefix(m.Value, "stuck") {
				<-release
				return nil
			}
			return note(t, string(m.Key), m.Value)
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	stick := func(from, to int) {
		for i := from; i < to; i++ {
			key := fmt.Sprintf("s%d", i)
			w.publish(w.message(key, fmt.Sprintf("stuck%d", i)), w.message(key, fmt.Sprintf("behind%d", i)))
		}
		until(t, "they are stuck", func() bool { return begunOf(&mu, begun, "stuck") == to })
	}
	stick(0, workers)
	for i := range 10 {
		w.publish(w.message(fmt.Sprintf("k%d", i), "well"))
	}
	until(t, "the others are handled by replacements", func() bool { return in.Health().Handled == 10 })
	if h := in.Health(); !h.Ready || len(h.Stuck) != workers {
		t.Errorf("with replacements its health is %+v", h)
	}
	stick(workers, 2*workers)
	until(t, "it says that nothing is handled", func() bool {
		h := in.Health()
		return !h.Ready && strings.Contains(h.Why, "nothing is handled: all 4 workers")
	})
	if n := begunOf(&mu, begun, "behind"); n != 0 {
		t.Errorf("%d messages passed the stuck one of their key", n)
	}
	mu.Lock()
	for what, n := range begun {
		if strings.HasPrefix(what, "stuck") && n != 1 {
			t.Errorf("%s was begun %d times", what, n)
		}
	}
	mu.Unlock()
	close(release)
	until(t, "it goes on", func() bool {
		return in.Health().Ready && begunOf(&mu, begun, "behind") == 2*workers
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func begunOf(mu *sync.Mutex, begun map[string]int, prefix string) (n int) {
	mu.Lock()
	defer mu.Unlock()
	for what := range begun {
		if strings.HasPrefix(what, prefix) {
			n++
		}
	}
	return n
}
