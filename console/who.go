package console

import "net/http"

// A Who is somebody who asks.
type Who struct {
	Name string // noted with what they do; required for Act and Payloads
	May  Right
}

// A Right is what somebody may do.
type Right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	View = Right(view_) // pages, without payloads and values of headers
	Act  = Right(act_)  // the verbs
	// payloads and values of headers, as Mask and MaskHeader leave them; each look is noted in skald_audit
	Payloads = Right(payloads_)
)

// who is Who for a guard; nil where that is.
func (o *Options) who() func(*http.Request) (visitor, error) {
	if o.Who == nil {
		return nil
	}
	return func(r *http.Request) (visitor, error) {
		who, err := o.Who(r)
		return visitor{Name: who.Name, May: right(who.May)}, err
	}
}
