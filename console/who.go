package console

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/guard"
)

// A Who is somebody who asks.
type Who struct {
	Name string // noted with what they do; required for Act and Payloads
	May  Right
}

// A Right is what somebody may do.
type Right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	View = Right(guard.View) // pages, without payloads and values of headers
	Act  = Right(guard.Act)  // the verbs
	// payloads and values of headers, as Mask and MaskHeader leave them; each look is noted in skald_audit
	Payloads = Right(guard.Payloads)
)

// who is Who for a guard; nil where that is.
func (o *Options) who() func(*http.Request) (guard.Who, error) {
	if o.Who == nil {
		return nil
	}
	return func(r *http.Request) (guard.Who, error) {
		who, err := o.Who(r)
		return guard.Who{Name: who.Name, May: guard.Right(who.May)}, err
	}
}
