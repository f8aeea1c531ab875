package demo

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// storyOrder selects the order for the story from Order's database. It prefers the first order with a broken
// promise, then an order with repeated deliveries, then any observed order. Among equal orders it selects the
// first one of the query Interesting. It returns "" if there are no orders.
func storyOrder(ctx context.Context, db table.DB, found []audit.Invariant,
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
		return "", "", fmt.Errorf("select an order for the story: %w", err)
	}
	return id, title, nil
}

func score(w *observer, order, victim string) int {
	seen, again := w.Observed(order)
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

// victim returns the first order with a broken promise, or "" if there is none.
func victim(found []audit.Invariant) string {
	named := regexp.MustCompile(`order ([A-Z2-7]{26})\b`)
	for _, one := range found {
		if m := named.FindStringSubmatch(one.Detail); m != nil && !one.OK {
			return m[1]
		}
	}
	return ""
}
