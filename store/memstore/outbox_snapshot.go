package memstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/store"
)

// tick returns the text of the snapshot after a commit: the ID of the database and the number of the commit.
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

// Snapshot returns a snapshot that includes the rows after base, or base if no rows were committed after it.
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

// missingTick returns a tick of c that the database does not have.
func (o *outboxTable) missingTick(c store.Cursor) string {
	for _, tick := range []string{c.Tip, c.Base} {
		if _, err := o.commitOf(tick); err != nil {
			return tick
		}
	}
	return ""
}
