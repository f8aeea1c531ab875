package operate

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// BlockingMessage is a message that blocks a saga, with the command that unblocks the saga. The JSON field
// names are stable.
type BlockingMessage struct {
	Consumer   string  `json:"consumer"`
	State      string  `json:"state"` // parked, dead or quarantined
	Source     string  `json:"source"`
	ID         string  `json:"id"`
	Type       string  `json:"type"`
	Kind       string  `json:"kind,omitempty"` // of a dead letter; or the reason for the quarantine
	Attempts   int     `json:"attempts,omitempty"`
	DueSeconds float64 `json:"due_seconds,omitempty"` // until the next attempt at a parked message
	LastError  string  `json:"last_error,omitempty"`  // the first line
	// Fingerprint is set for a dead letter. Dead letters with the same failure have the same fingerprint.
	Fingerprint string    `json:"fingerprint,omitempty"`
	Since       time.Time `json:"since"`
	Command     string    `json:"command"`
	// ShowCommand is the command that shows a message in quarantine. Run it before Command.
	ShowCommand string `json:"look,omitempty"`
}

// BlockingMessages returns the messages with these keys that block a saga: failed messages that are the
// first of their key, dead letters, and messages in quarantine. A dead letter that is a rejection counts
// only if it blocks its key, because the sender has received the rejection. The argument dbFlag is the flag
// that the returned commands use to select the database, such as "--store @orders.url". It is empty if
// SKALD_STORE selects the database.
func BlockingMessages(ctx context.Context, db store.Lister, keys [][]byte,
	dbFlag string) (out []BlockingMessage, err error) {
	dbFlag = spaced(dbFlag)
	for _, key := range keys {
		what := store.ParkedQuery{Key: key, Bare: true, Limit: pageSize}
		for {
			page, err := store.ListParked(ctx, db, what)
			if err != nil {
				return out, err
			}
			for i := range page {
				p := &page[i]
				what.After = p.Place
				// A message without a failure is in progress, so it does not block the saga.
				failed := p.Dead != nil || p.Last.Why != ""
				answered := p.Dead != nil && p.Dead.Kind == failure.KindRejected && !p.Dead.BlocksKey
				if failed && !answered && !p.Waiting {
					out = append(out, blockingMessageOf(p, dbFlag))
				}
			}
			if len(page) < pageSize {
				break
			}
		}
	}
	q := store.QuarantineQuery{Bare: true, Limit: 1000}
	for {
		page, err := store.ListQuarantined(ctx, db, q)
		if err != nil {
			return out, err
		}
		for i := range page {
			one := &page[i]
			q.After = one.Number
			ours := slices.ContainsFunc(keys,
				func(key []byte) bool {
					return one.Message.Key != nil &&
						string(key) == string(one.Message.Key)
				})
			if ours && one.Admitted.IsZero() {
				out = append(out, BlockingMessage{Consumer: one.Consumer, State: "quarantined",
					Source: one.Source,
					ID:     one.ID, Type: one.Message.Type,
					Kind: one.Why.String(), Since: one.At,
					Command: "skald inbox admit" + dbFlag + " --number " + strconv.FormatInt(one.Number, 10) +
						" --reason 'a message of its own'",
					ShowCommand: "skald inbox show" + dbFlag + " --consumer " + shortlog.Shell(one.Consumer) +
						sourceFlag(one.Source) + " -- " + shortlog.Shell(one.ID)})
			}
		}
		if len(page) < q.Limit {
			return out, nil
		}
	}
}

func blockingMessageOf(p *store.Parked, at string) BlockingMessage {
	h := BlockingMessage{Consumer: p.Consumer, State: "parked", Source: p.Source, ID: p.ID,
		Type:     p.Message.Type,
		Attempts: p.Attempts, LastError: firstLine(p.Last.Why), Since: p.Since}
	who := at + " --consumer " + shortlog.Shell(p.Consumer)
	const reason = " --reason 'the cause is gone'"
	if p.Dead == nil {
		h.DueSeconds = p.Due.Seconds()
		h.Command = "skald parked release" + who + " --key " + shellKey(p.Message.Key) + reason
		return h
	}
	h.State, h.Kind, h.Fingerprint = "dead", p.Dead.Kind, p.Dead.Fingerprint
	who += sourceFlag(p.Source)
	id := " -- " + shortlog.Shell(p.ID) // the ID may begin with a dash
	h.Command = "skald dead redrive" + who + reason + id
	if p.Dead.Kind == string(failure.Malformed) && p.Fault == "" {
		// Another attempt would read the same payload.
		h.Command = "skald dead edit" + who + " --data @FILE --reason 'its payload is corrected'" + id
	}
	// The sender has the rejection, so another attempt changes nothing.
	if p.Dead.Kind == failure.KindRejected {
		h.Command = "skald dead drop" + who + " --reason 'the rejection is final'" + id
	}
	return h
}

// sourceFlag returns the flag --source, or "" for a message without a source.
func sourceFlag(source string) string {
	if source == "" {
		return ""
	}
	return " --source " + shortlog.Shell(source)
}
