// This file sees to how long the marks of a consumer live: whether they outlive what they have to, and
// that they go when they are old.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// needs are what marks have to outlive.
type needs struct {
	Topics []string
	DB     store.Store
	Bus    any              // the broker, which may tell how long it keeps messages
	Keep   *store.Retention // that we see to; nil: somebody else does
	Age    time.Duration    // up to which a message is tried again
	Log    *slog.Logger     // that names the consumer

	// As inbox.Window has them.
	Outbox, Broker, Saga, Dead time.Duration
	Short                      bool
}

// Compare tells of a window whether marks are kept for as long as they are needed, or says in the log that
// they are not, where that is allowed.
func (n *needs) Compare(ctx context.Context, w retention.Window) error {
	broken := w.Broken()
	if len(broken) > 0 && !n.Short {
		err := broken[0]
		for _, more := range broken[1:] {
			err = fmt.Errorf("%w; %w", err, more)
		}
		return fmt.Errorf("%w; to start all the same: inbox.Options.Retention.Window.Short", err)
	}
	for _, err := range broken {
		n.Log.WarnContext(ctx, "inbox: marks are kept too briefly", "error", err)
	}
	if topics := w.Endless(); len(topics) > 0 {
		n.Log.WarnContext(ctx,
			"inbox: the broker keeps messages for ever, marks go: what is read again from the beginning is put into quarantine as too old, or taken again if its id tells no time",
			"topics", strings.Join(topics, ", "), "marks", w.Marks)
	}
	return nil
}

// Window is what is to be compared.
func (n *needs) Window(ctx context.Context) (retention.Window, error) {
	w := retention.Window{Outbox: cmp.Or(n.Outbox, 7*24*time.Hour), Age: n.Age, Saga: n.Saga,
		Dead: n.Dead}
	keep, err := n.keeps(ctx)
	if err != nil {
		return w, err
	}
	w.Marks, w.Steps = keep.Marks, keep.Steps
	w.Broker, err = n.brokerKeeps(ctx)
	return w, err
}

// keeps is the retention that holds for the marks: ours, if we see to it, or that which was seen to last.
func (n *needs) keeps(ctx context.Context) (store.Retention, error) {
	if n.Keep != nil {
		return retention.OrDefaults(*n.Keep)
	}
	status, err := n.DB.Status(ctx, store.StatusQuery{Retention: true})
	if err != nil {
		return store.Retention{}, fmt.Errorf("look at the retention of marks: %w", err)
	}
	// of none: what a relay will go by, unless it is told otherwise
	return retention.OrDefaults(status.Retention)
}

// brokerKeeps is how long the broker keeps a message, by topic.
func (n *needs) brokerKeeps(ctx context.Context) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	if d := n.Broker; d > 0 {
		for _, topic := range n.Topics {
			out[topic] = d
		}
		return out, nil
	}
	asked, ok := n.Bus.(broker.Keeper)
	if !ok || len(n.Topics) == 0 {
		return out, nil
	}
	told, err := asked.Keeps(ctx, n.Topics...)
	if errors.Is(err, broker.ErrUnsupported) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the broker how long it keeps messages: %w", err)
	}
	var unknown []string
	for _, topic := range n.Topics {
		if d, ok := told[topic]; ok {
			out[topic] = d
		} else {
			unknown = append(unknown, topic)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		n.Log.InfoContext(ctx,
			"inbox: the broker does not tell how long it keeps messages; give inbox.Options.Retention.Window.Broker to have it compared with the marks",
			"topics", strings.Join(unknown, ", "))
	}
	return out, nil
}
