package engine

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/store"
)

// kind is the topic and the type of a reply.
type kind struct{ Topic, Type string }

// kinds returns the kinds of the replies to all commands in book.
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

// unhandled lists those commands of a saga whose replies no consumer handles.
type unhandled struct {
	Saga          string
	Steps, Topics []string
}

// unhandledReplies lists, by saga, the steps whose replies arrive on topics that no consumer handles.
func unhandledReplies(book *book, consumers []store.Consumer) (out []unhandled) {
	for d := range book.All {
		un := unhandled{Saga: d.Name}
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
	slices.SortFunc(out, func(a, b unhandled) int { return cmp.Compare(a.Saga, b.Saga) })
	return out
}

func set(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
