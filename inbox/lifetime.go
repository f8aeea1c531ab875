// This file checks that the marks of a consumer are kept for long enough, and deletes expired rows.

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
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// markNeeds computes how long marks are needed.
type markNeeds struct {
	Topics []string
	DB     store.Store
	Bus    any              // the broker; it may be a broker.Keeper
	Keep   *store.Retention // Options.Retention.Keep; nil if another process deletes expired rows
	Age    time.Duration    // Options.Retry.Age
	Log    *slog.Logger     // has the name of the consumer

	// Outbox and the following fields are copies of the fields of Options.Retention.Window.
	Outbox, Broker, Saga, Dead time.Duration
	AllowShort                 bool
}

// Compare returns an error if marks are not kept for as long as they are needed. With AllowShort it logs a
// warning instead.
func (n *markNeeds) Compare(ctx context.Context, w retention.Window) error {
	broken := w.Broken()
	if len(broken) > 0 && !n.AllowShort {
		err := broken[0]
		for _, more := range broken[1:] {
			err = fmt.Errorf("%w; %w", err, more)
		}
		return fmt.Errorf("%w; to start anyway: inbox.Options.Retention.Window.AllowShort", err)
	}
	for _, err := range broken {
		n.Log.WarnContext(ctx, "inbox: marks are kept too briefly", "error", err)
	}
	if topics := w.Endless(); len(topics) > 0 {
		n.Log.WarnContext(ctx,
			"inbox: the broker keeps messages forever, but marks expire: old messages that are read again are put into quarantine as too old, or handled again if their ids contain no time",
			"topics", strings.Join(topics, ", "), "marks", w.Marks)
	}
	return nil
}

// Window returns how long marks and messages are kept.
func (n *markNeeds) Window(ctx context.Context) (retention.Window, error) {
	w := retention.Window{Outbox: cmp.Or(n.Outbox, 7*24*time.Hour), Age: n.Age, Saga: n.Saga,
		Dead: n.Dead}
	keep, err := n.markRetention(ctx)
	if err != nil {
		return w, err
	}
	w.Marks, w.Steps = keep.Marks, keep.Steps
	w.Broker, err = n.brokerKeeps(ctx)
	return w, err
}

// markRetention returns the retention of marks: Keep, or the retention with which a process last maintained
// the database.
func (n *markNeeds) markRetention(ctx context.Context) (store.Retention, error) {
	if n.Keep != nil {
		return retention.OrDefaults(*n.Keep)
	}
	status, err := n.DB.Status(ctx, store.StatusQuery{Retention: true})
	if err != nil {
		return store.Retention{}, fmt.Errorf("read the retention of marks: %w", err)
	}
	// If no process maintained it yet, these are the defaults of a relay.
	return retention.OrDefaults(status.Retention)
}

// brokerKeeps returns how long the broker keeps a message, by topic.
func (n *markNeeds) brokerKeeps(ctx context.Context) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	if d := n.Broker; d > 0 {
		for _, topic := range n.Topics {
			out[topic] = d
		}
		return out, nil
	}
	keeper, ok := n.Bus.(broker.Keeper)
	if !ok || len(n.Topics) == 0 {
		return out, nil
	}
	kept, err := keeper.Keeps(ctx, n.Topics...)
	if errors.Is(err, broker.ErrUnsupported) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the broker how long it keeps messages: %w", err)
	}
	var unknown []string
	for _, topic := range n.Topics {
		if d, ok := kept[topic]; ok {
			out[topic] = d
		} else {
			unknown = append(unknown, topic)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		n.Log.InfoContext(ctx,
			"inbox: the broker does not report how long it keeps messages; set inbox.Options.Retention.Window.Broker to compare that with the retention of marks",
			"topics", strings.Join(unknown, ", "))
	}
	return out, nil
}

// Window is how long after it was written a message may be delivered. It has the values that the inbox cannot
// find out by itself. Marks must be kept for at least that long. Otherwise Run, or the first Step, returns a
// *store.RetentionError. The zero value works.
type Window struct {
	// Outbox is how long after it was written a message may leave the outbox of its producer. It is the
	// producer's outbox retention, or its longest lag if that is more. Default 7 days.
	Outbox time.Duration
	// Broker is how long the broker keeps a message. Default: the inbox asks the broker. RabbitMQ, and a
	// broker that refuses to answer, count as 0.
	Broker time.Duration
	// Saga is the longest duration of a saga with this consumer. Default 0, for a consumer without sagas.
	Saga time.Duration
	// Dead is how long after it was written a dead letter may come from outside the store, for example from a
	// dead letter topic. Dead letters in the store need no mark. Default 0, if none comes from outside.
	Dead time.Duration
	// AllowShort starts the consumer even if marks are kept for a shorter time. Then the inbox puts later
	// messages into quarantine as too old. If their ids contain no time, it handles them again. Default: Run
	// returns an error.
	AllowShort bool
}

// checkWindow compares how long marks are kept with how long they are needed.
func (in *Inbox[TTx]) checkWindow(ctx context.Context) error {
	o := in.o.Retention.Window
	needs := markNeeds{Topics: in.topics, DB: in.db, Bus: in.bus, Keep: in.o.Retention.Keep,
		Age: in.o.Retry.Age, Log: in.o.Logger.With("consumer", in.group),
		Outbox: o.Outbox, Broker: o.Broker, Saga: o.Saga, Dead: o.Dead, AllowShort: o.AllowShort}
	w, err := needs.Window(ctx)
	if err != nil {
		return err
	}
	if err := in.checkCache(w.Marks); err != nil {
		return err
	}
	return needs.Compare(ctx, w)
}

const (
	// keepEvery is how often the owner of the lease deletes rows, and how often other instances try to get
	// the lease.
	keepEvery = 10 * time.Minute
	// keepLease is how long the lease lasts. If its owner dies, another instance gets it within 25 minutes.
	keepLease = 15 * time.Minute
	// startsWithin is how long after the inbox a relay may start. The inbox then checks whether a relay
	// deletes rows.
	startsWithin = 2 * time.Minute
)

// markKeeper deletes expired rows of a database.
type markKeeper struct {
	DB    store.Store
	Keep  *store.Retention // nil: only log if no process deletes expired rows
	Owner string           // of the lease
	Log   *slog.Logger     // has the name of the consumer
}

// Run deletes expired rows until ctx is done. A lease selects one instance among all consumers of the
// database. If two instances own the lease by mistake, they do no harm: each slot has its own lock.
func (k *markKeeper) Run(ctx context.Context) {
	if k.Keep == nil {
		if backoff.Sleep(ctx, startsWithin) { // a relay may start with this process
			k.missed(ctx)
		}
		return
	}
	defer k.releaseLease(ctx)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		more, err := k.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.Log.WarnContext(ctx, "inbox: retention", "error", err)
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// missed logs if no process deletes expired rows: then marks are kept forever.
func (k *markKeeper) missed(ctx context.Context) {
	found, err := k.DB.Examine(ctx, store.Exam{})
	if err != nil {
		return // an outage, which is logged elsewhere
	}
	for _, f := range found { // only a finding with a problem has a remedy
		if f.Name == "retention" && f.Remedy != "" {
			k.Log.WarnContext(ctx, "inbox: no process deletes expired marks", "observed", f.Observed, "remedy",
				f.Remedy)
		}
	}
}

func (k *markKeeper) maintain(ctx context.Context) (more bool, err error) {
	did, err := k.DB.Maintain(ctx, store.Maintain{Keep: *k.Keep, Owner: k.Owner, Lease: keepLease})
	if err == nil && (did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0) {
		k.Log.InfoContext(ctx, "inbox: retention",
			"rows", did.Rows, "marks", did.Marks, "steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More, err
}

// releaseLease ends the lease, so that the next instance need not wait.
func (k *markKeeper) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := k.DB.Maintain(ctx, store.Maintain{Owner: k.Owner, Leave: true}); err != nil {
		k.Log.WarnContext(ctx, "inbox: cannot end the lease on the retention", "error", err)
	}
}
