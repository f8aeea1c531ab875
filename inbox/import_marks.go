package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Finished is a message that a previous consumer handled, for Import.
type Finished struct {
	store.Identity
	// Fingerprint comes from skald_keys, of a database with the same fingerprint key. 0 means unknown.
	Fingerprint int64
	Answer      *once.Answer // the answer to each duplicate; nil if there is none
	// Keep is how long to keep the mark from now on, for a scope with its own retention: see once.Request.
	// Default: the retention of marks.
	Keep time.Duration
}

const mostImported = 500 // marks in a transaction

// Imported counts imported messages.
type Imported struct {
	New      int // marks that the import wrote
	Existing int // marks that existed before
	TooOld   int // older than the retention of marks; the inbox puts their duplicates into quarantine
}

// Import marks messages as finished by consumer, without handling them. Call it before the first inbox reads
// the topic, with the rows of your own deduplication table. Each transaction of at most 500 marks has an
// entry in skald_audit, with its first new mark, the author and the reason. If Import is interrupted, call it
// again with all messages: it skips those that have a mark.
func Import[TTx any](ctx context.Context, db store.Driver[TTx], consumer, author, reason string,
	from iter.Seq2[Finished, error]) (done Imported, err error) {
	if consumer == "" {
		return done, errors.New("import marks: the name of the consumer is empty")
	}
	if err := shortlog.CheckName("import marks: the consumer", consumer); err != nil {
		return done, err
	}
	batch, has := make([]Finished, 0, mostImported), map[store.Identity]bool{}
	send := func() error {
		audit := store.Audit{Author: author, Reason: reason, Action: "import marks", Consumer: consumer}
		if err := importBatch(ctx, db, batch, audit, &done); err != nil {
			return fmt.Errorf("import marks, after %d: %w", done.New+done.Existing+done.TooOld, err)
		}
		batch = batch[:0]
		clear(has)
		return nil
	}
	for f, err := range from {
		switch {
		case err != nil:
			return done, err
		case f.ID == "":
			return done, fmt.Errorf("import marks: a message of the source %q has no id", f.Source)
		case f.Keep < 0:
			return done, fmt.Errorf(
				"import marks: the Keep of %.200q is %v: give a time above 0, or 0 for the retention of marks",
				f.ID, f.Keep)
		case has[f.Identity]:
			done.Existing++
			continue
		}
		if f.Answer != nil {
			if err := f.Answer.Fits(once.Request{Scope: consumer, Key: f.ID}); err != nil {
				return done, fmt.Errorf("import marks: %w", err)
			}
		}
		has[f.Identity] = true
		batch = append(batch, f)
		if len(batch) == mostImported {
			if err := send(); err != nil {
				return done, err
			}
		}
	}
	return done, send()
}

// importBatch imports batch in one transaction, and adds its counts to total.
func importBatch[TTx any](ctx context.Context, db store.Driver[TTx], batch []Finished,
	audit store.Audit, total *Imported) error {
	ids := make([]store.Identity, len(batch))
	for i := range batch {
		ids[i] = batch[i].Identity
	}
	seen, err := db.Seen(ctx, audit.Consumer, ids) // one read finds the marks of an earlier import
	if err != nil {
		return err
	}
	fresh := batch[:0]
	for i, v := range seen {
		if v.Outcome == store.Fresh {
			fresh = append(fresh, batch[i])
		}
	}
	did := Imported{Existing: len(seen) - len(fresh)}
	if batch = fresh; len(batch) == 0 {
		total.Existing += did.Existing
		return nil
	}
	marks := make([]store.Mark, len(batch))
	for i := range batch {
		marks[i] = store.Mark{Consumer: audit.Consumer, Identity: batch[i].Identity, Outcome: store.Done,
			Fingerprint: batch[i].Fingerprint, Keep: batch[i].Keep}
	}
	unit, err := db.Begin(ctx, store.Intake{Marks: marks})
	if err != nil {
		return err
	}
	writes := []store.Effect{{Audit: &audit}}
	for i, v := range unit.Found().Marks {
		switch v.Outcome {
		case store.Fresh:
			if a := batch[i].Answer; a != nil {
				m := a.On(marks[i])
				writes = append(writes, store.Effect{Answer: &m})
			}
			if did.New++; did.New == 1 {
				audit.Identity = batch[i].Identity
			}
		case store.TooOld:
			did.TooOld++
		default:
			did.Existing++
		}
	}
	if did.New == 0 {
		_, _ = unit.Rollback(ctx) // nothing was written
	} else if err := unit.Commit(ctx, writes...); err != nil {
		return err
	}
	total.New += did.New
	total.Existing += did.Existing
	total.TooOld += did.TooOld
	return nil
}
