package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// maxUncharged limits the failing messages of each consumer that the check reads.
const maxUncharged = 1000

// uncharged adds a finding for each consumer with messages that fail with temporary errors, such as an
// outage. Skald does not count these failures as attempts for inbox.Retry.OutageRetryTime, so such a
// message does not become a dead letter meanwhile.
func (d *Doctor) uncharged(ctx context.Context, s DoctorStore) error {
	for _, consumer := range d.keepers {
		if !d.matches(consumer) {
			continue
		}
		alive := false
		failed, err := store.ListParked(ctx, s, store.ParkedQuery{Consumer: consumer, Dead: &alive,
			Failed: true,
			Bare:   true, Limit: maxUncharged})
		var right *store.RightError
		switch {
		case errors.As(err, &right): // the user of a relay may not read parked messages
			return nil
		case err != nil:
			return err
		}
		if n, oldest := unchargedOf(failed); n > 0 {
			d.reportUncharged(consumer, n, len(failed) == maxUncharged, oldest)
		}
	}
	return nil
}

// unchargedOf counts the messages without a counted attempt. It also returns the one that has failed for the
// longest time.
func unchargedOf(ps []store.Parked) (n int, oldest store.Parked) {
	for i := range ps {
		if ps[i].Attempts > 0 {
			continue
		}
		if n++; n == 1 || ps[i].First.At.Before(oldest.First.At) {
			oldest = ps[i]
		}
	}
	return n, oldest
}

func (d *Doctor) reportUncharged(consumer string, n int, more bool, oldest store.Parked) {
	least := ""
	if more {
		least = "at least "
	}
	d.Add("store", "uncharged of "+consumer, skald.Doubtful,
		fmt.Sprintf("%s%d messages fail with temporary errors; the oldest, %s, for %v: %s", least, n,
			shortlog.Shell(oldest.ID), time.Since(oldest.First.At).Round(time.Second),
			firstLine(oldest.Last.Why)),
		fmt.Sprintf("repair the cause; skald parked list --consumer %s has the errors. Skald retries these messages within 30 s and charges their attempts after inbox.Retry.OutageRetryTime (10 min unless set)",
			shortlog.Shell(consumer)))
}
