package demo

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// hero is the order whose story is told, by Order's database db: the first that the auditor blames a broken
// promise with, or one that w has watched, of which much had to be undone, with repeats; "", if there is
// none.
func hero(ctx context.Context, db table.DB, found []audit.Invariant,
	w *observer) (id, title string, err error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return "", "", err
	}
	best, blamed := 0, victim(found)
	err = table.All(ctx, db, statements["Interesting"], nil, func(row table.Row) error {
		var one, state, reason string
		if err := row.Scan(&one, &state, &reason); err != nil {
			return err
		}
		if score := score(w, one, blamed); score > best {
			best, id = score, one
			title = strings.TrimSuffix(fmt.Sprintf("order %s, %s: %s", one, state,
				strings.ReplaceAll(reason, "_", " ")), ": ")
		}
		return nil
	})
	if err != nil {
		return "", "", fmt.Errorf("look for a story: %w", err)
	}
	return id, title, nil
}

func score(w *observer, order, victim string) int {
	seen, again := w.Saw(order)
	switch {
	case order == victim:
		return 4
	case again:
		return 3
	case seen:
		return 2
	}
	return 1
}

// victim is the first order that the auditor blames a broken promise with; "" if none is broken.
func victim(found []audit.Invariant) string {
	named := regexp.MustCompile(`order ([A-Z2-7]{26})\b`)
	for _, one := range found {
		if m := named.FindStringSubmatch(one.Detail); m != nil && !one.OK {
			return m[1]
		}
	}
	return ""
}
