package operate

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Definition is one version of a saga's definition that engines have stored. The JSON field names are stable.
type Definition struct {
	Name       string    `json:"name"`
	Hash       string    `json:"hash"`
	LastStored time.Time `json:"noted"`              // the last time at which an engine stored it
	Deadline   string    `json:"deadline,omitempty"` // of each saga
	Steps      []string  `json:"steps"`
	// DecodeError is the error if this version of Skald cannot decode the definition.
	DecodeError string `json:"unread,omitempty"`
	// ComparedWith is the hash of the newest version with the same name: an engine stored it for the first
	// time after all others. It is empty in the newest version itself.
	ComparedWith string `json:"against,omitempty"`
	// Changes lists the differences between this version and ComparedWith, with their effect on running sagas
	// of this version. Without changes these sagas continue under ComparedWith.
	Changes []DefinitionChange `json:"changes"`

	graph plan.Graph
}

// DefinitionChange is one difference between two versions.
type DefinitionChange struct {
	Step   string `json:"step,omitempty"`
	Change string `json:"what"`
	Class  string `json:"class"`           // compatible, mapping or refused
	Begun  string `json:"begun,omitempty"` // limits the change to sagas that have begun this step
}

// Definitions lists the definitions that engines have stored, ordered by name, the newest first. It compares
// each definition with the newest of the same name. An empty name selects all.
func Definitions(ctx context.Context, db store.Lister, name string) ([]Definition, error) {
	l, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return nil, err
	}
	out := []Definition{}
	newest, written := 0, plan.Written{}
	for i := range l.Definitions {
		one := &l.Definitions[i]
		if name != "" && name != one.Name {
			continue
		}
		d, w := definitionOf(one)
		if len(out) == 0 || out[newest].Name != d.Name {
			newest, written = len(out), w
		} else {
			d.compare(&out[newest], &written)
		}
		out = append(out, d)
	}
	return out, nil
}

func definitionOf(one *store.SagaDefinition) (Definition, plan.Written) {
	d := Definition{Name: one.Name, Hash: one.Hash, LastStored: one.Noted, Steps: []string{},
		Changes: []DefinitionChange{}}
	f, err := plan.Read(strings.NewReader(one.Written))
	if err != nil {
		d.DecodeError = err.Error()
		return d, plan.Written{}
	}
	for _, w := range f.Definitions {
		if w.Hash != one.Hash {
			continue
		}
		d.graph = w.Graph
		if w.Graph.Deadline > 0 {
			d.Deadline = w.Graph.Deadline.String()
		}
		for i := range w.Graph.Steps {
			d.Steps = append(d.Steps, w.Graph.Steps[i].Name)
		}
		return d, w
	}
	d.DecodeError = "its hash differs from the hash under which it is stored"
	return d, plan.Written{}
}

// compare sets the fields ComparedWith and Changes. w is the newest version with its mappings.
func (d *Definition) compare(newest *Definition, w *plan.Written) {
	d.ComparedWith = newest.Hash
	if d.DecodeError != "" || newest.DecodeError != "" {
		return
	}
	known, m := map[string]bool{}, mappingFrom(*w, d.Hash)
	for _, c := range plan.Compare(d.graph, newest.graph, m) {
		known[c.Step] = true
		d.Changes = append(d.Changes, DefinitionChange{Step: c.Step, Change: c.What, Class: string(c.Class),
			Begun: c.Begun})
	}
	for _, step := range d.Steps {
		known[cmp.Or(m.Rename[step], step)] = true
	}
	for _, step := range newest.Steps {
		if !known[step] {
			d.Changes = append(d.Changes, DefinitionChange{Step: step, Change: "the step is new",
				Class: string(plan.Compatible)})
		}
	}
}

// Draw draws the definition in one of DrawingForms. It returns "" if the definition cannot be decoded.
func (d *Definition) Draw(form string) (string, error) {
	if d.DecodeError != "" {
		return "", nil
	}
	return drawGraph(form, d.graph, nil)
}
