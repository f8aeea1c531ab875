package inbox

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

const (
	admitEvery = 5 * time.Second // how often each instance asks for messages that were admitted
	rekeyEvery = time.Minute
	admitMost  = 100 // at a time
)

// admitted parks messages in quarantine that somebody admitted: from then on they are tried, wait for their
// turn and end as others of their key do.
func (in *Inbox[TTx]) admitted(ctx context.Context) {
	now := in.o.Now()
	if now.Before(in.askAt) {
		return
	}
	in.askAt = now.Add(admitEvery)
	if !in.room() {
		return
	}
	list, err := store.ListQuarantined(ctx, in.db, store.Query{Consumer: in.group, Admitted: true, Limit: admitMost})
	if err == nil && len(list) > 0 {
		err = in.admit(ctx, list, now)
	}
	in.did(ctx, admitting, err)
}

// admit parks list. Which of them another instance was first with, or whose key is full, the next look finds
// out.
func (in *Inbox[TTx]) admit(ctx context.Context, list []store.Quarantined, now time.Time) error {
	var es []store.Effect
	for _, q := range list {
		if !in.exec.Handles(store.Kind{Topic: q.Message.Topic, Type: q.Message.Type}) {
			in.o.Logger.WarnContext(ctx, "inbox: a message that was admitted stays in quarantine", "consumer", in.group,
				"number", q.Number, "topic", q.Message.Topic, "type", q.Message.Type, "error", errNoHandler)
			continue
		}
		es = append(es, store.Effect{Admitted: &q, Park: &store.Park{MostRows: in.o.Limits.KeyRows,
			MostBytes: in.o.Limits.KeyBytes, Parked: store.Parked{
				Consumer: in.group, Identity: admittedAs(&q), Message: q.Message, Partition: partition.Quarantine, Position: q.Number}}})
	}
	if len(es) == 0 {
		return nil
	}
	stood, err := in.db.Apply(ctx, es...)
	if err == nil && slices.Contains(stood, true) {
		in.parked.Change()
		in.parked.Soon(now)
		in.askAt = now // there may be more
	}
	return err
}

// admittedAs is the identity of an admitted message: its own, unless that has the mark of another message.
func admittedAs(q *store.Quarantined) store.Identity {
	if q.Why != store.Conflict {
		return q.Identity
	}
	return store.Identity{Source: partition.Quarantine, ID: strconv.FormatInt(q.Number, 10) + "-" + q.ID}
}

// owner names our tables among those of other databases and schemas: by what only they know, and without
// telling that.
func (in *Inbox[TTx]) owner() string {
	return strconv.FormatUint(uint64(in.exec.Key().Of([]byte("owner"))), 16)
}

// rekey reads the key of fingerprints, now and then again: the database may be another one. Until it can be
// had the old one serves.
func (in *Inbox[TTx]) rekey(ctx context.Context) error {
	now := in.o.Now()
	if in.exec.Key() != nil && now.Before(in.keyAt) {
		return nil
	}
	key, err := in.db.Secret(ctx)
	if err != nil {
		return err
	}
	in.exec.SetKey(fingerprint.New(key))
	in.keyAt = now.Add(rekeyEvery)
	return nil
}

// room tells whether the consumer may park more.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.Limits.ParkedRows && in.kept.Bytes < in.o.Limits.ParkedBytes
}
