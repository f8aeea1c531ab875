// Plans of verbs: the page first shows the effect of a verb, and applies the verb if the effect is still the
// same.

package view

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// plan is the effect of a verb that was not applied yet. The form must return the hash in Seen.
type plan struct {
	Verb        string        `json:"verb"`
	Source      string        `json:"source"`
	Does        string        `json:"does"`
	Command     string        `json:"command"`
	Selected    int           `json:"selected"` // selected messages
	Change      int           `json:"change"`   // number of them that would change
	More        bool          `json:"more"`     // more than 10,000: the verb is refused
	Needs       []needsCall   `json:"needs_call"`
	Sample      []messageLine `json:"sample"` // the first of them
	Quarantined []quarantined `json:"quarantine,omitempty"`
	Meant       []meantSaga   `json:"sagas,omitempty"`  // the first sagas of a bulk action
	Undo        []string      `json:"undo,omitempty"`   // steps of a saga whose undo would be requested
	Before      []string      `json:"before,omitempty"` // steps with an unreported earlier request
	Seen        string        `json:"seen"`
	// Changed is the change since the page was read. The verb was not applied.
	Changed string             `json:"changed,omitempty"`
	Stale   bool               `json:"stale"`             // the state has changed since the previous page
	Missing string             `json:"missing,omitempty"` // missing part of the form; nothing was applied
	Request operate.RunRequest `json:"request"`

	*page.Failure // Changed or Missing, as a problem
	at            *page.Source
	verb          page.Verb
	many          bool   // all sagas that match the filter
	tried         bool   // the verb was tried on each of them
	single        string // hash of the only message
}

// needsCall is a message with an unsettled external call: a drop needs the outcome of the call.
type needsCall struct {
	ID   string `json:"id"`
	Step string `json:"step"`
	Saga string `json:"saga"`
	Key  string `json:"key"`
}

func (v *plan) Heading() string { return v.verb.Title }

func (v *plan) Code() int {
	if v.Failure != nil {
		return v.Status
	}
	return http.StatusOK
}

// refused adds a problem to v: the verb was not applied.
func (v *plan) refused(code int, what string) *plan {
	v.Failure = &page.Failure{Status: code, Title: http.StatusText(code), Detail: what}
	return v
}
