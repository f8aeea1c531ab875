package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// claim claims due parked messages. It writes nothing if no messages are due.
func claim(ctx context.Context, run *sqlexec.DB, w store.ClaimRequest) (c store.Claimed, err error) {
	others, most := kindsJSON(w.Not), w.ClaimSize
	p, err := run.Prepare(ctx)
	if err != nil {
		return c, sqlexec.Failed("claim", err)
	}
	var some bool
	if err := p.Row(ctx, "SomeDue", w.Consumer, others).Scan(&some, &c.Admitted); err != nil {
		return c, sqlexec.Failed("claim", err)
	}
	keys := 0
	if some {
		err = run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) error {
			rows, err := x.Rows(ctx, "Claim", w.Consumer, most.Keys, sqlexec.Milliseconds(w.Lease), w.Session,
				others, store.PageBytes)
			if err == nil {
				c.Parked, err = sqlexec.Collect(rows, scanKept)
			}
			if err != nil {
				return err
			}
			keys = len(c.Parked)
			with, err := prefetch(ctx, x, c.Parked, most, w.Not)
			c.Parked = append(c.Parked, with...)
			return err
		})
	}
	if err != nil {
		return store.Claimed{}, sqlexec.Failed("claim", err)
	}
	slices.SortFunc(c.Parked, func(a, b store.Parked) int { return int(a.Place - b.Place) })
	if keys == most.Keys {
		return c, nil
	}
	var next int64
	if err := p.Row(ctx, "NextDue", w.Consumer, others).Scan(&next); err != nil {
		return store.Claimed{}, sqlexec.Failed("claim", err)
	}
	if c.Next = time.Duration(next) * time.Millisecond; next == 0 {
		c.Next = -1
	}
	return c, nil
}

// prefetch reads messages that the process may handle directly after a claimed message of the same key. If
// the process of an earlier claim was lost, prefetched also counts that claim for the messages that it
// prefetched.
func prefetch(ctx context.Context, x *sqlexec.Session, claimed []store.Parked, most store.ClaimSize,
	not []store.Kind) (all []store.Parked, err error) {
	bytes := 0
	for i := range claimed {
		bytes += column.MessageBytes(&claimed[i].Message)
	}
	for i := range claimed {
		k := &claimed[i]
		if k.Claims > 1 {
			if _, err := x.Exec(ctx, "CountPrefetch", k.Place); err != nil {
				return nil, fmt.Errorf("count claims of prefetched messages: %w", err)
			}
			continue
		}
		limit := min(most.Prefetch, most.PrefetchAll-len(all))
		if limit <= 0 || k.Message.Key == nil || k.CrashCount > 0 || k.Call != nil {
			continue
		}
		rows, err := x.Rows(ctx, "Prefetch", k.Place, limit, store.PageBytes-bytes)
		if err != nil {
			return nil, fmt.Errorf("prefetch: %w", err)
		}
		with, err := sqlexec.Collect(rows, scanKept)
		if err != nil {
			return nil, fmt.Errorf("prefetch: %w", err)
		}
		if n := slices.IndexFunc(with, func(w store.Parked) bool { return !plain(&w, not) }); n >= 0 {
			with = with[:n]
		}
		if len(with) == 0 {
			continue
		}
		if _, err := x.Exec(ctx, "NotePrefetch", k.Place, with[len(with)-1].Place); err != nil {
			return nil, fmt.Errorf("record prefetched messages: %w", err)
		}
		for i := range with {
			bytes += column.MessageBytes(&with[i].Message)
		}
		all = append(all, with...)
	}
	return all, nil
}

// plain reports whether a claim may prefetch a message. Other messages need a claim of their own.
func plain(p *store.Parked, not []store.Kind) bool {
	return p.Dead == nil && p.Call == nil && p.Claims == 0 && p.CrashCount == 0 &&
		!slices.Contains(not, store.Kind{Topic: p.Message.Topic, Type: p.Message.Type})
}

// kindsJSON returns kinds as a JSON array of texts, as the statements compare them.
func kindsJSON(kinds []store.Kind) string {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = k.Topic + "\x1f" + k.Type
	}
	text, _ := json.Marshal(list) // cannot fail for strings
	return string(text)
}
