package console

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
)

// Who is the user of a request.
type Who struct {
	Name string // noted with what they do; required for Act and Payloads
	May  Right
}

// Right is what somebody may do.
type Right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	View = Right(page.GuardView) // pages, without payloads and values of headers
	Act  = Right(page.Act)       // the verbs
	// payloads and values of headers, as Mask and MaskHeader leave them; each look is noted in skald_audit
	Payloads = Right(page.Payloads)
)

// who is Who for a guard; nil where that is.
func (o *Options) who() func(*http.Request) (page.Who, error) {
	if o.Who == nil {
		return nil
	}
	return func(r *http.Request) (page.Who, error) {
		who, err := o.Who(r)
		return page.Who{Name: who.Name, May: page.Right(who.May)}, err
	}
}
