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

// PauseInbox has every process of a consumer begin no more messages, within about 5 s, until ResumeInbox;
// what is in hand is finished. It outlasts restarts.
func PauseInbox(ctx context.Context, db Positions, consumer string, o Order) error {
	return tell(ctx, db, consumer, o, "pause",
		control.Pause(control.Order{Who: o.Author, Why: o.Reason, At: time.Now().UTC()}))
}

// ResumeInbox ends a pause, and closes the breakers that are open in the consumer's processes, within about 5
// s.
func ResumeInbox(ctx context.Context, db Positions, consumer string, o Order) error {
	return tell(ctx, db, consumer, o, "resume", control.Resume()...)
}

// SkipInbox has each message that fails with this fingerprint become a dead letter of the kind "skipped" at
// its next failure. It holds no key and counts for no breaker. The fingerprint is that of dead letters and of
// an open breaker: 12 hexadecimal digits.
func SkipInbox(ctx context.Context, db Positions, consumer, fingerprint string, o Order) error {
	if err := printOK(fingerprint); err != nil {
		return err
	}
	return tell(ctx, db, consumer, o, "skip "+fingerprint,
		control.Skip(fingerprint, control.Order{Who: o.Author, Why: o.Reason, At: time.Now().UTC()}))
}

// UnskipInbox ends SkipInbox.
func UnskipInbox(ctx context.Context, db Positions, consumer, fingerprint string, o Order) error {
	if err := printOK(fingerprint); err != nil {
		return err
	}
	return tell(ctx, db, consumer, o, "unskip "+fingerprint, control.Unskip(fingerprint))
}

func printOK(fingerprint string) error {
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(fingerprint) {
		return &UsageError{What: fmt.Sprintf(
			"%q is no fingerprint: it has 12 hexadecimal digits, as skald dead list prints it", fingerprint)}
	}
	return nil
}

// tell records the order and carries it out, in one transaction. It may be asked for again.
func tell(ctx context.Context, db Positions, consumer string, o Order, what string,
	checkpoints ...store.Checkpoint) error {
	if consumer == "" {
		return &UsageError{What: "which consumer?"}
	}
	if err := checkOrder(&o); err != nil {
		return err
	}
	for i := range checkpoints {
		checkpoints[i].Stamp = checkpoints[0].Origin
	}
	// A consumer of a shared queue has no checkpoint, but it registers its types. An empty Beat only reads.
	known, err := db.Attend(ctx, store.Attend{Consumer: consumer, Beat: &store.Beat{}})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, consumer, err)
	}
	if len(known.Checkpoints) == 0 && len(known.Kinds) == 0 {
		return &UnknownConsumerError{Consumer: consumer}
	}
	if o.DryRun {
		return nil
	}
	stood, err := applyEffect(ctx, db, store.Effect{Control: &store.Control{Consumer: consumer,
		Checkpoints: checkpoints}, Audit: auditOf(&o, what, consumer, store.Identity{})})
	if err == nil && !stood {
		err = errors.New("it was not carried out")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, consumer, err)
	}
	return nil
}
