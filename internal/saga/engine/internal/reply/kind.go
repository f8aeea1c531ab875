package reply

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/engine/internal/definitions"
)

// A Kind is a topic and a type of replies.
type Kind struct{ Topic, Type string }

// Kinds are those of messages that participants reply with.
func Kinds(book *definitions.Book) (out []Kind) {
	for d := range book.All {
		for i := range d.Steps {
			for _, c := range []*body.Command{d.Steps[i].Command, d.Steps[i].Undo} {
				if c == nil {
					continue
				}
				for _, r := range append([]body.Reply{c.Done}, c.Refused...) {
					if k := (Kind{r.Topic, r.Type}); !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	slices.SortFunc(out,
		func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out
}
