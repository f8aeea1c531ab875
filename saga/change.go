package saga

import (
	"io"
	"slices"

	"github.com/skald-go/skald/internal/saga/draw"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Mapping takes running sagas of an older definition to this one: see Options.Mappings. One that names a
// later definition takes its sagas back, after a rollback; without it they are left to the later build.
type Mapping struct {
	From   string            // Hash of the other definition
	Rename map[string]string // steps: their older name, their newer one
	Skip   []string          // steps that are new, and that sagas skip which are past them
}

// Change is one difference between two definitions, and what it means for sagas that run.
type Change struct {
	Step  string
	What  string
	Class Class
	// Begun limits the change to sagas that have begun this step. Empty: all.
	Begun string
}

// Class says what becomes of the sagas that a change means.
type Class string

// Classes of changes.
const (
	Compatible   Class = "compatible" // they go on
	NeedsMapping Class = "mapping"    // they go on with a Mapping
	// Refused means that no engine of the newer definition takes them: let the older one finish them.
	Refused Class = "refused"
)

func (c Change) String() string {
	return plan.Change{Step: c.Step, What: c.What, Class: plan.Class(c.Class), Begun: c.Begun}.String()
}

// Compare tells what becomes of running sagas when newer takes the place of older, through newer's mapping of
// older, if it has one. None: they go on as if nothing had changed.
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

// Write writes definitions, with their children's, as JSON, for `skald saga check --definitions FILE`, which
// compares them with the sagas that run.
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

// withChildren adds a definition and its children to all, each once.
func withChildren(all []*engine.Definition, d *engine.Definition) []*engine.Definition {
	if slices.Contains(all, d) {
		return all
	}
	all = append(all, d)
	for i := range d.Steps {
		if c := d.Steps[i].Child; c != nil {
			all = withChildren(all, c.Definition)
		}
	}
	return all
}

// Text is the definition as a table.
func (d *Definition[In]) Text() string { return draw.Text(d.body.Plan.Graph, nil) }

// Mermaid is the definition as a flow chart, for Markdown.
func (d *Definition[In]) Mermaid() string { return draw.Mermaid(d.body.Plan.Graph, nil) }

// SVG is the definition as a picture.
func (d *Definition[In]) SVG() string { return draw.SVG(d.body.Plan.Graph, nil) }
