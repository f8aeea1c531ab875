package reply

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/engine/internal/definitions"
	"github.com/skald-go/skald/store"
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

// Unheard are the steps of a saga to whose commands nobody takes the replies.
type Unheard struct {
	Saga          string
	Steps, Topics []string
}

// UnheardOf lists, by saga, the steps whose replies come by topics that none of the consumers handles.
func UnheardOf(book *definitions.Book, consumers []store.Consumer) (out []Unheard) {
	for d := range book.All {
		un := Unheard{Saga: d.Name}
		for i := range d.Steps {
			for _, c := range []*body.Command{d.Steps[i].Command, d.Steps[i].Undo} {
				if c == nil || slices.ContainsFunc(consumers, func(one store.Consumer) bool {
					return slices.Contains(one.Topics, c.Done.Topic)
				}) {
					continue
				}
				un.Steps = append(un.Steps, d.Plan.Graph.Steps[i].Name)
				un.Topics = append(un.Topics, c.Done.Topic)
			}
		}
		if un.Steps, un.Topics = set(un.Steps), set(un.Topics); len(un.Steps) > 0 {
			out = append(out, un)
		}
	}
	slices.SortFunc(out, func(a, b Unheard) int { return cmp.Compare(a.Saga, b.Saga) })
	return out
}

func set(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
