package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

const (
	redriveEnded = "redrive ended: " // begins the last note of a run
	auditPage    = 1000
)

// run names the redrive of these messages for this reason: the same command again is the same run, until it has ended.
func (w *wanted) run() string {
	key := "any"
	if w.key != nil {
		key = hex.EncodeToString(w.key)
	}
	b, err := json.Marshal([]string{w.consumer, w.source, w.id, key, w.fingerprint, w.topic, w.typ, w.kind, w.since, w.until, w.reason})
	if err != nil { // texts can be written
		return "redrive"
	}
	sum := sha256.Sum256(b)
	return "redrive-" + hex.EncodeToString(sum[:6])
}

// resume reads what earlier calls of the command have redriven, and what became of it. Each redriven message was audited in the
// transaction that redrove it: nothing is missing, and nothing is there that did not happen.
func (r *redrive) resume(ctx context.Context) error {
	for after := int64(0); ; {
		page, err := r.k.Audited(ctx, r.id, after, auditPage)
		if err != nil {
			return err
		}
		for _, a := range page {
			after = a.Number
			if strings.HasPrefix(a.What, redriveEnded) {
				r.sent, r.known = nil, map[whose]*redriven{}
				continue
			}
			if r.add(whose{a.Consumer, a.Identity}); len(r.sent) == 1 {
				r.begun = a.At
			}
		}
		if len(page) < auditPage {
			break
		}
	}
	if len(r.sent) == 0 {
		return nil
	}
	return r.look(ctx)
}

// look finds out what has become of those that were not taken yet. Many are looked for in one walk over what is kept.
func (r *redrive) look(ctx context.Context) error {
	r.looked = time.Now()
	var waiting []*redriven
	for _, s := range r.sent {
		if s.fate == open {
			waiting = append(waiting, s)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	kept := map[whose]*store.Parked{}
	keep := func(p store.Parked) (bool, error) {
		kept[whose{p.Consumer, p.Identity}] = &p
		return true, nil
	}
	if len(waiting) > 50 {
		if err := (&wanted{consumer: r.w.consumer}).anyKept(ctx, r.k, keep); err != nil {
			return err
		}
	} else {
		for _, s := range waiting {
			found, err := r.k.Kept(ctx, store.Sought{Consumer: s.consumer, Identity: &s.Identity, Bare: true}, 1)
			if err != nil {
				return err
			}
			for _, p := range found {
				kept[s.whose] = &p
			}
		}
	}
	return r.judge(ctx, waiting, kept)
}

// judge says what became of messages: those that are kept, and those that are not, which have a mark.
func (r *redrive) judge(ctx context.Context, waiting []*redriven, kept map[whose]*store.Parked) error {
	gone := map[string][]*redriven{} // by consumer
	for _, s := range waiting {
		switch p := kept[s.whose]; {
		case p == nil:
			gone[s.consumer] = append(gone[s.consumer], s)
		case p.Dead != nil, p.Attempts > 0:
			s.fate = failed
			s.why, _, _ = strings.Cut(p.Last.Why, "\n")
		}
	}
	for consumer, list := range gone {
		ids := make([]store.Identity, len(list))
		for i, s := range list {
			ids[i] = s.Identity
		}
		seen, err := r.k.Seen(ctx, consumer, ids)
		if err != nil {
			return err
		}
		for i, v := range seen {
			if list[i].fate = done; v.Outcome == store.Rejected {
				list[i].fate = no
			}
		}
	}
	return nil
}

// note ends the run: what came of it is kept, and the same command is a new run from now on. One whose canary was not taken has
// not ended.
func (r *redrive) note(ctx context.Context) error {
	a := store.Audit{Who: r.w.by, Why: r.w.reason, What: redriveEnded + r.outcome(), Consumer: r.w.consumer, Run: r.id}
	if _, err := r.k.Apply(ctx, store.Effect{Audit: &a}); err != nil {
		return fmt.Errorf("end the run %s: %w", r.id, err)
	}
	return nil
}
