package memstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/store"
)

// A snapshot is told as a tick: the number of a commit, with the database that counted it.
func (o *outboxTable) tick(commit int64) string { return o.id + ":" + strconv.FormatInt(commit, 10) }

func (o *outboxTable) commitOf(tick string) (int64, error) {
	if tick == "" {
		return 0, nil
	}
	id, text, _ := strings.Cut(tick, ":")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id != o.id || n < 1 || n > o.commits {
		return 0, fmt.Errorf("tick %q: %w", tick, store.ErrMoved)
	}
	return n, nil
}

// Snapshot looks for rows behind base: base itself, where there are none.
func (o *outboxTable) Snapshot(base string) (tip string, err error) {
	from, err := o.commitOf(base)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(o.rows, func(r outboxRow) bool { return r.commit > from }) {
		return o.tick(o.commits), nil
	}
	return base, nil
}

// missing is a tick of c that is not there.
func (o *outboxTable) missing(c store.Cursor) string {
	for _, tick := range []string{c.Tip, c.Base} {
		if _, err := o.commitOf(tick); err != nil {
			return tick
		}
	}
	return ""
}
