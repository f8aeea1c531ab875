package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// RenameError is the reason why a consumer was not renamed. Nothing has changed.
type RenameError struct{ What string }

func (e *RenameError) Error() string { return e.What }

// RenameStore is the part of a database that RenameInbox needs. Every driver of Skald implements it.
type RenameStore interface {
	Rename(ctx context.Context, r store.Rename) (store.Renamed, error)
	Attend(ctx context.Context, a store.Attend) (store.Attended, error)
}

// Waiting counts the messages that a broker holds for one group alone, in queues of RabbitMQ or consumers
// of NATS. See broker.Lagger.
type Waiting interface {
	Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error)
}

// RenameInbox moves all stored data of the consumer was to the name is, in one transaction with an audit.
// The data are marks with their answers, positions, controls, parked messages and dead letters,
// quarantine, steps, floors and types. It returns a *RenameError if a process of either name sent a
// heartbeat in the last 3 minutes (Gone). It also returns one if the consumer is has data, or if the
// broker at holds messages for was. at is nil for Kafka, which keeps messages for every group. A dry run
// only reads, with the rights of a reader. Otherwise the login must own the tables.
//
// Each mark is written again. A consumer that starts under either name meanwhile waits, so no mark is
// lost. A process suspended for more than 3 minutes sends no heartbeat, and uses the old name when it
// resumes. End such a process first.
func RenameInbox(ctx context.Context, db RenameStore, at Waiting, was, is string,
	o Order) (store.Renamed, error) {
	r := store.Rename{Old: was, New: is, Quiet: Gone}
	switch {
	case was == "" || is == "":
		return store.Renamed{}, &UsageError{What: "from which name to which?"}
	case was == is:
		return store.Renamed{}, &UsageError{What: fmt.Sprintf("%s has that name already", was)}
	}
	if err := checkOrder(&o); err != nil {
		return store.Renamed{}, err
	}
	found, err := db.Rename(ctx, r)
	if err == nil {
		err = obstacle(r, &found)
	}
	if err == nil && at != nil {
		err = drained(ctx, db, at, was)
	}
	if err != nil || o.DryRun {
		return found, err
	}
	r.Audit = auditOf(&o, "rename "+was+" to "+is, is, store.Identity{})
	did, err := db.Rename(ctx, r)
	if err == nil && !did.Done {
		err = obstacle(r, &did)
		if err == nil {
			err = &RenameError{
				fmt.Sprintf("%s or %s changed meanwhile: look which process uses them, and try again", was,
					is)}
		}
	}
	return did, err
}

func obstacle(r store.Rename, found *store.Renamed) error {
	for _, c := range []struct {
		name string
		b    *store.Belongings
	}{{r.Old, &found.Old}, {r.New, &found.New}} {
		if column.HasSession(c.b, r.Quiet) {
			return &RenameError{
				fmt.Sprintf("a process of %s gave a sign of life %v ago: stop all of them, and try again once it is %v",
					c.name, c.b.Heard.Round(time.Second), r.Quiet)}
		}
	}
	if column.Belonging(&found.Old) == 0 {
		return &UnknownConsumerError{Consumer: r.Old}
	}
	if n := &found.New; column.BelongingDone(n) > 0 {
		return &RenameError{
			fmt.Sprintf("%s has %d marks, %d controls, %d parked messages, %d dead letters, %d messages in quarantine, %d steps and %d floors of its own: choose a name that is new",
				r.New, n.Marks, n.Controls, n.Parked, n.Dead, n.Quarantined, n.Steps, n.Floors)}
	}
	return nil
}

// drained returns an error while the broker holds messages for the old group. The new group would not
// receive them.
func drained(ctx context.Context, db RenameStore, at Waiting, was string) error {
	kinds, err := db.Attend(ctx, store.Attend{Consumer: was, Beat: &store.Beat{}})
	if err != nil {
		return fmt.Errorf("look which topics %s handles: %w", was, err)
	}
	var topics []string
	for _, k := range kinds.Kinds { // sorted by topic
		if len(topics) == 0 || topics[len(topics)-1] != k.Topic {
			topics = append(topics, k.Topic)
		}
	}
	lag, err := at.Lag(ctx, was, topics...)
	if err != nil {
		return fmt.Errorf("look what the broker holds for %s: %w", was, err)
	}
	for _, topic := range topics {
		if n := lag[topic]; n > 0 {
			return &RenameError{
				fmt.Sprintf("the broker holds %d messages of %s for %s: stop the relays, let %s handle them, stop it, and try again", n, topic, was, was)}
		}
	}
	return nil
}
