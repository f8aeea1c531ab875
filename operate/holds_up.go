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

// A Holder is a message that keeps a saga from going on, and the command that frees it: its names in JSON are
// stable.
type Holder struct {
	Consumer   string  `json:"consumer"`
	State      string  `json:"state"` // parked, dead or quarantined
	Source     string  `json:"source"`
	ID         string  `json:"id"`
	Type       string  `json:"type"`
	Kind       string  `json:"kind,omitempty"` // of a dead letter; of one in quarantine its cause
	Attempts   int     `json:"attempts,omitempty"`
	DueSeconds float64 `json:"due_seconds,omitempty"` // of a parked one: until it is tried again
	LastError  string  `json:"last_error,omitempty"`  // the first line
	// Fingerprint of a dead letter is the group of its failure.
	Fingerprint string    `json:"fingerprint,omitempty"`
	Since       time.Time `json:"since"`
	Command     string    `json:"command"`
	// Look, of one in quarantine, is the command that shows it, to be run before Command.
	Look string `json:"look,omitempty"`
}

// Holders are the messages of these keys that failed and come first of their key, dead letters, and those in
// quarantine. A rejection that is kept as a dead letter is an answer: it is one only where it holds its key.
// At is how the command finds the database, "--store @orders.url"; empty where SKALD_STORE tells it.
func Holders(ctx context.Context, db store.Lister, keys [][]byte, at string) (out []Holder, err error) {
	if at != "" {
		at = " " + at
	}
	for _, key := range keys {
		what := store.Sought{Key: key, Bare: true, Limit: pageSize}
		for {
			page, err := store.ListKept(ctx, db, what)
			if err != nil {
				return out, err
			}
			for i := range page {
				p := &page[i]
				what.After = p.Place
				failed := p.Dead != nil || p.Last.Why != "" // else it is on its way, a call perhaps
				answered := p.Dead != nil && p.Dead.Kind == failure.KindRejected && !p.Dead.BlocksKey
				if failed && !answered && !p.Waiting {
					out = append(out, holderOf(p, at))
				}
			}
			if len(page) < pageSize {
				break
			}
		}
	}
	q := store.Query{Bare: true, Limit: 1000}
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
				out = append(out, Holder{Consumer: one.Consumer, State: "quarantined", Source: one.Source,
					ID: one.ID, Type: one.Message.Type,
					Kind: one.Why.String(), Since: one.At,
					Command: "skald inbox admit" + at + " --number " + strconv.FormatInt(one.Number, 10) +
						" --reason 'it is meant'",
					Look: "skald inbox show" + at + " --consumer " + shortlog.Shell(one.Consumer) +
						sourceFlag(one.Source) + " -- " + shortlog.Shell(one.ID)})
			}
		}
		if len(page) < q.Limit {
			return out, nil
		}
	}
}

func holderOf(p *store.Parked, at string) Holder {
	h := Holder{Consumer: p.Consumer, State: "parked", Source: p.Source, ID: p.ID, Type: p.Message.Type,
		Attempts: p.Attempts, LastError: firstLine(p.Last.Why), Since: p.Since}
	who := at + " --consumer " + shortlog.Shell(p.Consumer)
	const reason = " --reason 'the cause is gone'"
	if p.Dead == nil {
		h.DueSeconds = p.Due.Seconds()
		h.Command = "skald parked release" + who + " --key " + keyWord(p.Message.Key) + reason
		return h
	}
	h.State, h.Kind, h.Fingerprint = "dead", p.Dead.Kind, p.Dead.Fingerprint
	who += sourceFlag(p.Source)
	id := " -- " + shortlog.Shell(p.ID) // which may begin with a dash
	h.Command = "skald dead redrive" + who + reason + id
	if p.Dead.Kind == string(failure.Malformed) && p.Fault == "" { // another attempt would read the same
		h.Command = "skald dead edit" + who + " --data @FILE --reason 'its payload is mended'" + id
	}
	if p.Dead.Kind == failure.KindRejected { // it was answered; to take it again changes nothing
		h.Command = "skald dead drop" + who + " --reason 'the answer stands'" + id
	}
	return h
}

// sourceFlag is --source as it is typed; a message without a source needs none.
func sourceFlag(source string) string {
	if source == "" {
		return ""
	}
	return " --source " + shortlog.Shell(source)
}
