package verbs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/store"
)

// known is an error where a database has never heard of a consumer, and keeps nothing for it: "nothing is
// there" would hide that the name is misspelt. Consumer "": none is named.
func known(ctx context.Context, db store.Teller, consumer string) error {
	if consumer == "" {
		return nil
	}
	b, err := store.ReadBacklog(ctx, db)
	if err != nil {
		return fmt.Errorf("which consumers there are: %w", err)
	}
	var all []string
	for _, c := range b.Consumers {
		all = append(all, c.Name)
	}
	for _, k := range b.Kept {
		all = append(all, k.Consumer)
	}
	if slices.Contains(all, consumer) {
		return nil
	}
	return unknown("consumer", consumer, all)
}

// unknown is the error of a name that is none of those that there are.
func unknown(what, name string, all []string) error {
	slices.Sort(all)
	text := fmt.Sprintf("nothing is known of a %s %q in this database", what, name)
	if all = slices.Compact(all); len(all) > 0 {
		text += ": known are " + strings.Join(all[:min(20, len(all))], ", ")
	}
	return &cli.NoneError{What: text}
}
