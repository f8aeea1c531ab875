package operate

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Actions in the audit about messages that the broker removed before a consumer read them.
const (
	missed       = "missed"
	acknowledged = "missed acknowledged"
)

const (
	missedPage = 500
	maxMissed  = 20 * missedPage // limits the audits that Missed reads
)

// AuditStore is the part of a store that Missed and AcknowledgeMissed need.
type AuditStore interface {
	RunReader
	Applier
}

// Missed returns the audits of messages that the broker removed before a consumer read them, oldest first.
// It omits acknowledged audits. It reads the last 10,000 audits of the database.
func Missed(ctx context.Context, a AuditStore) (out []store.Audit, err error) {
	known := map[string]int64{} // by consumer: the highest acknowledged number
	for before, read := int64(0), 0; read < maxMissed; read += missedPage {
		page, err := a.Audits(ctx, store.AuditQuery{Before: before, Limit: missedPage})
		if err != nil {
			return nil, fmt.Errorf("read the audit of missed messages: %w", err)
		}
		for _, n := range page {
			switch before = n.Number; {
			case n.Action == acknowledged:
				known[n.Consumer] = max(known[n.Consumer], upTo(n))
			case n.Action == missed && n.Number > known[n.Consumer]:
				out = append(out, n)
			}
		}
		if len(page) < missedPage {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// upTo returns the number of the last audit that an acknowledgement covers. An operator may write an
// acknowledgement by SQL without that number. Then it covers all audits before it.
func upTo(ack store.Audit) int64 {
	if n, err := strconv.ParseInt(ack.ID, 10, 64); err == nil {
		return min(n, ack.Number)
	}
	return ack.Number
}

// AcknowledgeMissed acknowledges the audits of a consumer's missed messages up to this number. Missed no
// longer returns these audits.
func AcknowledgeMissed(ctx context.Context, a AuditStore, consumer string, number int64, o Order) error {
	switch {
	case consumer == "":
		return &UsageError{Reason: "which consumer?"}
	case number <= 0:
		return &UsageError{Reason: "up to which number? Give the number of a listed entry"}
	}
	if err := checkOrder(&o); err != nil || o.DryRun {
		return err
	}
	note := auditOf(&o, acknowledged, consumer, store.Identity{ID: strconv.FormatInt(number, 10)})
	if _, err := applyEffect(ctx, a, store.Effect{Audit: note}); err != nil {
		return fmt.Errorf("acknowledge the missed messages of %s: %w", consumer, err)
	}
	return nil
}

// MissedFindings returns a finding for each consumer that missed messages. The argument missed is the
// result of Missed.
func MissedFindings(missed []store.Audit) (out []skald.Finding) {
	for _, n := range missed {
		i := slices.IndexFunc(out, func(f skald.Finding) bool { return f.Name == "missed by "+n.Consumer })
		if i < 0 {
			i = len(out)
			out = append(out, skald.Finding{Name: "missed by " + n.Consumer, Grade: skald.Failed,
				Remedy: "publish them again, then run: skald consumer acknowledge-missed --consumer " +
					n.Consumer + ` --reason "published again"`})
		} else {
			out[i].Observed += "; "
		}
		out[i].Observed += n.Reason
	}
	return out
}
