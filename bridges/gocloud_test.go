package bridges_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/pubsub/driver"
	"gocloud.dev/pubsub/drivertest"

	"github.com/skald-go/skald/bridges"
)

// TestGoCloud runs all of go-cloud's suite: nothing in it is skipped.
func TestGoCloud(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			client := k.shared(t)
			drivertest.RunConformanceTests(t,
				func(_ context.Context, t *testing.T) (drivertest.Harness, error) {
					return &harness{b: client(t), id: fmt.Sprintf("bridges.%x", time.Now().UnixNano()),
						forward: k.forward}, nil
				}, nil)
		})
	}
}

type harness struct {
	b       bus
	id      string
	used    atomic.Int32
	forward bool
}

var _ drivertest.Harness = (*harness)(nil)

func (h *harness) name() string { return fmt.Sprintf("%s.%d", h.id, h.used.Add(1)) }

func nothing() {}

func (h *harness) CreateTopic(ctx context.Context, _ string) (driver.Topic, func(), error) {
	topic := h.name()
	return &named{bridges.NewCloudTopic(h.b, topic), topic}, nothing, h.b.MakeTopics(ctx, partitions, topic)
}

// named is a topic whose name the harness knows again.
type named struct {
	driver.Topic
	name string
}

func (h *harness) MakeNonexistentTopic(context.Context) (driver.Topic, error) {
	return bridges.NewCloudTopic(h.b, h.name()), nil
}

// CreateSubscription lets the group begin at once, where it would not see what is sent before it joins.
func (h *harness) CreateSubscription(ctx context.Context, t driver.Topic,
	_ string) (driver.Subscription, func(), error) {
	s := bridges.NewCloudSubscription(h.b, h.name(), t.(*named).name)
	if h.forward {
		if err := s.Join(ctx); err != nil {
			return nil, nil, err
		}
	}
	return s, nothing, nil
}

func (h *harness) MakeNonexistentSubscription(context.Context) (driver.Subscription, func(), error) {
	return bridges.NewCloudSubscription(h.b, h.name(), h.name()), nothing, nil
}

func (h *harness) Close() {}

func (h *harness) MaxBatchSizes() (int, int) { return 0, 0 }

func (h *harness) SupportsMultipleSubscriptions() bool { return true }
