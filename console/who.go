package console

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
)

// User is the user of a request.
type User struct {
	Name string // recorded in the audit of the user's actions; required for Act and Payloads
	May  Right
}

// Right is a set of rights.
type Right uint8

// Values of Right. No right includes another right. Every request needs View.
const (
	View = Right(page.GuardView) // the right to read pages, without payloads and header values
	Act  = Right(page.Act)       // the right to apply operations
	// Payloads is the right to read payloads and header values, as Mask and MaskHeader return them. The
	// console records each access in skald_audit.
	Payloads = Right(page.Payloads)
)

// guardUser converts Options.User for page.Guard. It returns nil if Options.User is nil.
func (o *Options) guardUser() func(*http.Request) (page.Who, error) {
	if o.User == nil {
		return nil
	}
	return func(r *http.Request) (page.Who, error) {
		who, err := o.User(r)
		return page.Who{Name: who.Name, May: page.Right(who.May)}, err
	}
}
