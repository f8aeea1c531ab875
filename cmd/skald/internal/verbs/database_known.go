package verbs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/store"
)

// checkConsumer returns an error if a database has no data of a consumer. Otherwise a command would print
// an empty list for a misspelt name. An empty name is no error.
func checkConsumer(ctx context.Context, db store.StatusReader, consumer string) error {
	if consumer == "" {
		return nil
	}
	b, err := store.ReadBacklog(ctx, db)
	if err != nil {
		return fmt.Errorf("list the consumers: %w", err)
	}
	var all []string
	for _, c := range b.Consumers {
		all = append(all, c.Name)
	}
	for _, k := range b.PerConsumer {
		all = append(all, k.Consumer)
	}
	if slices.Contains(all, consumer) {
		return nil
	}
	return unknown("consumer", consumer, all)
}

// unknown returns the error for a name that does not exist. The error lists the existing names.
func unknown(what, name string, existing []string) error {
	slices.Sort(existing)
	text := fmt.Sprintf("this database has no %s %q", what, name)
	if existing = slices.Compact(existing); len(existing) > 0 {
		text += ": it has " + strings.Join(existing[:min(20, len(existing))], ", ")
	}
	return &cli.NoneError{What: text}
}
