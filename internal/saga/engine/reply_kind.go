package engine

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/store"
)

// A kind is a topic and a type of replies.
type kind struct{ Topic, Type string }

// kinds are those of messages that participants reply with.
func kinds(book *book) (out []kind) {
	for d := range book.All {
		for i := range d.Steps {
			for _, c := range []*Command{d.Steps[i].Command, d.Steps[i].Undo} {
				if c == nil {
					continue
				}
				for _, r := range append([]Reply{c.Done}, c.Refused...) {
					if k := (kind{r.Topic, r.Type}); !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	slices.SortFunc(out,
		func(a, b kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out
}

// unheard are the steps of a saga to whose commands nobody takes the replies.
type unheard struct {
	Saga          string
	Steps, Topics []string
}

// unheardOf lists, by saga, the steps whose replies come by topics that none of the consumers handles.
func unheardOf(book *book, consumers []store.Consumer) (out []unheard) {
	for d := range book.All {
		un := unheard{Saga: d.Name}
		for i := range d.Steps {
			for _, c := range []*Command{d.Steps[i].Command, d.Steps[i].Undo} {
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
	slices.SortFunc(out, func(a, b unheard) int { return cmp.Compare(a.Saga, b.Saga) })
	return out
}

func set(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
