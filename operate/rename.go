package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// RenameError is the reason why a consumer was not renamed. Nothing has changed.
type RenameError struct{ Reason string }

func (e *RenameError) Error() string { return e.Reason }

// RenameStore is the part of a store that RenameInbox needs.
type RenameStore interface {
	Rename(ctx context.Context, r store.Rename) (store.Renamed, error)
	SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error)
}

// LagReader is the part of a broker that RenameInbox needs. It counts the messages that the broker stores for
// one group alone, in queues of RabbitMQ or consumers of NATS.
type LagReader interface {
	Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error)
}

// RenameInbox gives all stored data of the consumer oldName the name newName, in one transaction with an
// audit: marks with their answers, positions, controls, parked messages, dead letters, quarantine, steps,
// floors and types. It returns a *RenameError if a process of either name has sent a heartbeat within
// GoneAfter, or if newName has data. If bus is not nil, RenameInbox also returns a *RenameError if that
// broker stores messages for oldName. Pass nil for Kafka, which stores the same messages for all groups. A
// dry run needs the rights of a reader. Otherwise the login must own the tables.
//
// RenameInbox writes each mark again. A consumer that starts under either name meanwhile waits, so no mark
// is lost. A process that was suspended for longer than GoneAfter sends no heartbeat, and uses the old name
// when it resumes. End such a process first.
func RenameInbox(ctx context.Context, db RenameStore, bus LagReader, oldName, newName string,
	o Order) (store.Renamed, error) {
	r := store.Rename{Old: oldName, New: newName, Quiet: GoneAfter}
	switch {
	case oldName == "" || newName == "":
		return store.Renamed{}, &UsageError{Reason: "give the old name and the new name"}
	case oldName == newName:
		return store.Renamed{}, &UsageError{
			Reason: fmt.Sprintf("the old name and the new name are both %s", oldName)}
	}
	if err := cmp.Or(checkName("the new name", newName), checkOrder(&o)); err != nil {
		return store.Renamed{}, err
	}
	found, err := db.Rename(ctx, r)
	if err == nil {
		err = obstacle(r, &found)
	}
	if err == nil && bus != nil {
		err = checkDrained(ctx, db, bus, oldName)
	}
	if err != nil || o.DryRun {
		return found, err
	}
	r.Audit = auditOf(&o, "rename "+oldName+" to "+newName, newName, store.Identity{})
	did, err := db.Rename(ctx, r)
	if err == nil && !did.Done {
		err = obstacle(r, &did)
		if err == nil {
			err = &RenameError{
				fmt.Sprintf("%s or %s changed meanwhile: stop the process that uses the name, and try again", oldName,
					newName)}
		}
	}
	return did, err
}

// obstacle returns the error that prevents the rename, or nil.
func obstacle(r store.Rename, found *store.Renamed) error {
	for _, c := range []struct {
		name string
		b    *store.ConsumerRows
	}{{r.Old, &found.Old}, {r.New, &found.New}} {
		if column.HasSession(c.b, r.Quiet) {
			return &RenameError{
				fmt.Sprintf("a process of %s sent a heartbeat %v ago: stop all its processes, and try again %v after the last heartbeat",
					c.name, c.b.LastHeartbeat.Round(time.Second), r.Quiet)}
		}
	}
	if column.Belonging(&found.Old) == 0 {
		return &UnknownConsumerError{Consumer: r.Old}
	}
	if n := &found.New; column.BelongingDone(n) > 0 {
		return &RenameError{
			fmt.Sprintf("%s has %d marks, %d controls, %d parked messages, %d dead letters, %d messages in quarantine, %d steps and %d floors: choose a name without data",
				r.New, n.Marks, n.Controls, n.Parked, n.Dead, n.Quarantined, n.Steps, n.Floors)}
	}
	return nil
}

// checkDrained returns an error if the broker stores messages for the old group. The new group would not
// receive these messages.
func checkDrained(ctx context.Context, db RenameStore, at LagReader, was string) error {
	kinds, err := db.SyncConsumer(ctx, store.SyncRequest{Consumer: was, Heartbeat: &store.Heartbeat{}})
	if err != nil {
		return fmt.Errorf("read the topics of %s: %w", was, err)
	}
	var topics []string
	for _, k := range kinds.Kinds { // sorted by topic
		if len(topics) == 0 || topics[len(topics)-1] != k.Topic {
			topics = append(topics, k.Topic)
		}
	}
	lag, err := at.Lag(ctx, was, topics...)
	if err != nil {
		return fmt.Errorf("read the lag of %s at the broker: %w", was, err)
	}
	for _, topic := range topics {
		if n := lag[topic]; n > 0 {
			return &RenameError{
				fmt.Sprintf("the broker holds %d messages of %s for %s: stop the relays, wait until %s has handled the messages, stop it, and try again", n, topic, was, was)}
		}
	}
	return nil
}
