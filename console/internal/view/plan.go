// This file has plans. Before the console applies a verb, it shows the effect of the verb to the operator.
// The operator confirms, and the console applies the verb if its effect is still the same.

package view

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// plan is the effect of a verb that is not applied yet. The form sends the hash in Seen back, so that the
// console notices a change.
type plan struct {
	Verb        string        `json:"verb"`
	Source      string        `json:"source"`
	Does        string        `json:"does"`
	Command     string        `json:"command"`
	Selected    int           `json:"selected"` // the number of selected messages or sagas
	Change      int           `json:"change"`   // the number of those that the verb would change
	More        bool          `json:"more"`     // more than 10,000 are selected, so the verb is refused
	Needs       []needsCall   `json:"needs_call"`
	Sample      []messageLine `json:"sample"` // the first selected messages
	Quarantined []quarantined `json:"quarantine,omitempty"`
	Meant       []meantSaga   `json:"sagas,omitempty"`  // the first sagas of a bulk action
	Undo        []string      `json:"undo,omitempty"`   // the steps for which the verb would request the undo
	Before      []string      `json:"before,omitempty"` // the steps with an earlier request without an answer
	Seen        string        `json:"seen"`
	// Changed describes the change since the operator read the page. If it is not empty, the verb was not
	// applied.
	Changed string             `json:"changed,omitempty"`
	Stale   bool               `json:"stale"`             // the state has changed since the previous page
	Missing string             `json:"missing,omitempty"` // the missing field of the form
	Request operate.RunRequest `json:"request"`

	*page.Failure // the problem details for Changed or Missing
	at            *page.Source
	verb          page.Verb
	many          bool   // the verb is for all sagas that match the filter
	tried         bool   // a dry run of the verb was made for each saga
	single        string // the hash of the only selected message
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

// refused adds the problem details for a verb that was not applied to v.
func (v *plan) refused(code int, what string) *plan {
	v.Failure = &page.Failure{Status: code, Title: http.StatusText(code), Detail: what}
	return v
}
