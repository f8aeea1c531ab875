package saga

import (
	"io"
	"slices"

	"github.com/skald-go/skald/internal/saga/draw"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Mapping moves running sagas from another definition to this one: see Options.Mappings. After a rollback of
// a deployment, a mapping from the later definition moves its sagas back. Without this mapping only the later
// build runs them.
type Mapping struct {
	From   string            // Hash of the other definition
	Rename map[string]string // from the older name of a step to its newer name
	Skip   []string          // new steps that sagas beyond them skip
}

// Change is one difference between two definitions, with its consequence for running sagas.
type Change struct {
	Step  string
	What  string
	Class Class
	// Begun limits the change to sagas that have begun this step. Empty means all sagas.
	Begun string
}

// Class is the consequence of a change for running sagas.
type Class string

// Classes of changes.
const (
	Compatible   Class = "compatible" // the sagas continue
	NeedsMapping Class = "mapping"    // the sagas continue if there is a Mapping
	// Refused means that engines with the newer definition cannot run the sagas. Let the older build finish
	// them.
	Refused Class = "refused"
)

func (c Change) String() string {
	return plan.Change{Step: c.Step, What: c.What, Class: plan.Class(c.Class), Begun: c.Begun}.String()
}

// Compare returns the changes for running sagas if the definition newer replaces older. It applies newer's
// mapping from older, if there is one. If there are no changes, running sagas continue.
func Compare(older, newer Defined) (out []Change) {
	var m plan.Mapping
	for _, mapping := range newer.Body().Mappings {
		if mapping.From == older.Hash() {
			m = mapping
		}
	}
	for _, c := range plan.Compare(older.Body().Plan.Graph, newer.Body().Plan.Graph, m) {
		out = append(out, Change{Step: c.Step, What: c.What, Class: Class(c.Class), Begun: c.Begun})
	}
	return out
}

// Write writes definitions and the definitions of their children as JSON. The command `skald saga check
// --definitions FILE` compares the file with the running sagas.
func Write(w io.Writer, ds ...Defined) error {
	var all []*engine.Definition
	for _, d := range ds {
		if err := d.Faults(); err != nil {
			return err
		}
		all = withChildren(all, d.Body())
	}
	var out []plan.Written
	for _, d := range all {
		out = append(out, plan.Written{Hash: d.Hash, Graph: d.Plan.Graph, Mappings: d.Mappings})
	}
	return plan.Write(w, out...)
}

// withChildren adds a definition and its children to definitions, without duplicates.
func withChildren(definitions []*engine.Definition, d *engine.Definition) []*engine.Definition {
	if slices.Contains(definitions, d) {
		return definitions
	}
	definitions = append(definitions, d)
	for i := range d.Steps {
		if c := d.Steps[i].Child; c != nil {
			definitions = withChildren(definitions, c.Definition)
		}
	}
	return definitions
}

// Text returns the definition as a table.
func (d *Definition[In]) Text() string { return draw.Text(d.body.Plan.Graph, nil) }

// Mermaid returns the definition as a flow chart, for Markdown.
func (d *Definition[In]) Mermaid() string { return draw.Mermaid(d.body.Plan.Graph, nil) }

// SVG returns the definition as an SVG image.
func (d *Definition[In]) SVG() string { return draw.SVG(d.body.Plan.Graph, nil) }
