package console

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
)

// User is the user of a request.
type User struct {
	Name string // recorded with the user's actions; required for Act and Payloads
	May  Right
}

// Right is a set of rights.
type Right uint8

// Rights. None includes another, and every request needs View.
const (
	View = Right(page.GuardView) // pages, without payloads and header values
	Act  = Right(page.Act)       // operations
	// Payloads is for payloads and header values, after Mask and MaskHeader. Each access is recorded in
	// skald_audit.
	Payloads = Right(page.Payloads)
)

// who converts Options.User for page.Guard. Returns nil if the option is not set.
func (o *Options) who() func(*http.Request) (page.Who, error) {
	if o.User == nil {
		return nil
	}
	return func(r *http.Request) (page.Who, error) {
		who, err := o.User(r)
		return page.Who{Name: who.Name, May: page.Right(who.May)}, err
	}
}
