package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// PauseInbox pauses all processes of a consumer within about 5 s. They finish the messages in progress, and
// begin no others. The pause survives restarts, and ends with ResumeInbox.
func PauseInbox(ctx context.Context, db PositionStore, consumer string, o Order) error {
	return applyControl(ctx, db, consumer, o, "pause",
		control.Pause(control.Order{Who: o.Author, Why: o.Reason, At: time.Now().UTC()}))
}

// ResumeInbox ends a pause, and closes the open breakers of the consumer's processes, within about 5 s.
func ResumeInbox(ctx context.Context, db PositionStore, consumer string, o Order) error {
	return applyControl(ctx, db, consumer, o, "resume", control.Resume()...)
}

// SkipInbox makes a consumer turn each message that fails with this fingerprint into a dead letter of the
// kind "skipped". Such a dead letter does not block its key, and no breaker counts its failure. A
// fingerprint has 12 hexadecimal digits: dead letters and open breakers show it.
func SkipInbox(ctx context.Context, db PositionStore, consumer, fingerprint string, o Order) error {
	if err := checkFingerprint(fingerprint); err != nil {
		return err
	}
	return applyControl(ctx, db, consumer, o, "skip "+fingerprint,
		control.Skip(fingerprint, control.Order{Who: o.Author, Why: o.Reason, At: time.Now().UTC()}))
}

// UnskipInbox ends SkipInbox for this fingerprint. Dead letters stay.
func UnskipInbox(ctx context.Context, db PositionStore, consumer, fingerprint string, o Order) error {
	if err := checkFingerprint(fingerprint); err != nil {
		return err
	}
	return applyControl(ctx, db, consumer, o, "unskip "+fingerprint, control.Unskip(fingerprint))
}

func checkFingerprint(fingerprint string) error {
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(fingerprint) {
		return &UsageError{Reason: fmt.Sprintf(
			"%q is no fingerprint: a fingerprint has 12 hexadecimal digits, as in skald dead list", fingerprint)}
	}
	return nil
}

// applyControl writes an order to a consumer, as checkpoints that its processes read, and the audit of the
// order in the same transaction.
func applyControl(ctx context.Context, db PositionStore, consumer string, o Order, what string,
	checkpoints ...store.Checkpoint) error {
	if consumer == "" {
		return &UsageError{Reason: "which consumer?"}
	}
	if err := checkOrder(&o); err != nil {
		return err
	}
	for i := range checkpoints {
		checkpoints[i].Stamp = checkpoints[0].Origin
	}
	// A consumer of a shared queue has no checkpoint, but it registers its types. An empty Heartbeat only
	// reads.
	known, err := db.SyncConsumer(ctx, store.SyncRequest{Consumer: consumer, Heartbeat: &store.Heartbeat{}})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, consumer, err)
	}
	if len(known.Checkpoints) == 0 && len(known.Kinds) == 0 {
		return &UnknownConsumerError{Consumer: consumer}
	}
	if o.DryRun {
		return nil
	}
	applied, err := applyEffect(ctx, db, store.Effect{Control: &store.Control{Consumer: consumer,
		Checkpoints: checkpoints}, Audit: auditOf(&o, what, consumer, store.Identity{})})
	if err == nil && !applied {
		err = errors.New("the store did not apply it")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, consumer, err)
	}
	return nil
}
