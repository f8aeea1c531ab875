// This file marks messages as finished that another consumer has handled: some hundred in a
// transaction, with an entry in the audit for each.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// A importedFinished message is one that was handled, as inbox.Finished is.
type importedFinished struct {
	store.Identity
	Fingerprint int64        // 0: not known
	Answer      *once.Answer // what each repeat gets; nil: nothing but that it is done
	Keep        time.Duration
}

// importedCounts are what became of them.
type importedCounts struct {
	New    int // marks that are there now
	Known  int // that were there before
	TooOld int // whose marks would be forgotten already
}

const most = 500 // in a transaction

// marks marks messages as finished by consumer, as inbox.Import says.
func marks[TTx any](ctx context.Context, db store.Driver[TTx], consumer, who, why string,
	from iter.Seq2[importedFinished, error]) (done importedCounts, err error) {
	if consumer == "" {
		return done, errors.New("import marks: whose? A mark needs a consumer")
	}
	batch, has := make([]importedFinished, 0, most), map[store.Identity]bool{}
	send := func() error {
		audit := store.Audit{Author: who, Reason: why, Action: "import marks", Consumer: consumer}
		if err := batchOf(ctx, db, batch, audit, &done); err != nil {
			return fmt.Errorf("import marks, after %d: %w", done.New+done.Known+done.TooOld, err)
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
			return done, fmt.Errorf("import marks: one of %q has no id", f.Source)
		case f.Keep < 0:
			return done, fmt.Errorf(
				"import marks: %.200q is to be kept for %v: say how long, or 0 for as long as marks are",
				f.ID, f.Keep)
		case has[f.Identity]:
			done.Known++
			continue
		}
		if f.Answer != nil {
			if err := f.Answer.Fits(once.Request{Scope: consumer, Key: f.ID}); err != nil {
				return done, fmt.Errorf("import marks: %w", err)
			}
		}
		has[f.Identity] = true
		batch = append(batch, f)
		if len(batch) == most {
			if err := send(); err != nil {
				return done, err
			}
		}
	}
	return done, send()
}

// batchOf is one transaction.
func batchOf[TTx any](ctx context.Context, db store.Driver[TTx], batch []importedFinished,
	audit store.Audit, done *importedCounts) error {
	ids := make([]store.Identity, len(batch))
	for i := range batch {
		ids[i] = batch[i].Identity
	}
	seen, err := db.Seen(ctx, audit.Consumer, ids) // one read for those of a run before
	if err != nil {
		return err
	}
	fresh := batch[:0]
	for i, v := range seen {
		if v.Outcome == store.Fresh {
			fresh = append(fresh, batch[i])
		}
	}
	did := importedCounts{Known: len(seen) - len(fresh)}
	if batch = fresh; len(batch) == 0 {
		done.Known += did.Known
		return nil
	}
	marks := make([]store.Mark, len(batch))
	for i := range batch {
		marks[i] = store.Mark{Consumer: audit.Consumer, Identity: batch[i].Identity, As: store.Done,
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
			did.Known++
		}
	}
	if did.New == 0 {
		_, _ = unit.Rollback(ctx) // nothing was written
	} else if err := unit.Commit(ctx, writes...); err != nil {
		return err
	}
	done.New, done.Known, done.TooOld = done.New+did.New, done.Known+did.Known, done.TooOld+did.TooOld
	return nil
}
