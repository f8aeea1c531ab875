// This file says what a verb would do before anything is done, and does it if that still holds.

package view

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// A plan is what a verb would do: nothing has changed. A form that is sent has to bring Seen along.
type plan struct {
	Verb     string        `json:"verb"`
	Source   string        `json:"source"`
	Does     string        `json:"does"`
	Command  string        `json:"command"`
	Selected int           `json:"selected"` // messages
	Change   int           `json:"change"`   // of those: what would be changed
	More     bool          `json:"more"`     // there are more than 10,000: it is refused
	Needs    []needsCall   `json:"needs_call"`
	Sample   []messageLine `json:"sample"` // the first of them
	Apart    []apart       `json:"quarantine,omitempty"`
	Meant    []meantSaga   `json:"sagas,omitempty"`  // the first of them, of a bulk action on sagas
	Undo     []string      `json:"undo,omitempty"`   // steps of a saga whose undo is asked for
	Before   []string      `json:"before,omitempty"` // was asked for before, and is not reported yet
	Seen     string        `json:"seen"`
	// what has changed since the page was read: nothing was done
	Changed string             `json:"changed,omitempty"`
	Stale   bool               `json:"stale"`             // the page that led here was older than this
	Missing string             `json:"missing,omitempty"` // what the form lacks: nothing was done
	Request operate.RunRequest `json:"request"`

	*page.Failure // what Changed and Missing say, as a problem
	at            *page.Source
	verb          page.Verb
	many          bool   // all sagas that a filter chooses, not one of them
	tried         bool   // each of them was asked whether the verb applies to it
	alone         string // seen of the only one
}

// A needsCall is a message at a call to the outside: a drop has to say what became of it.
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

// refused is v with the problem that nothing was done.
func (v *plan) refused(code int, what string) *plan {
	v.Failure = &page.Failure{Status: code, Title: http.StatusText(code), Detail: what}
	return v
}
