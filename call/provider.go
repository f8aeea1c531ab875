package call

import (
	"time"

	"github.com/skald-go/skald/internal/vitals"
)

// ProviderOptions configures a Provider. The zero value works.
type ProviderOptions struct {
	// Timeout is how long a request may take. Default 10 s.
	Timeout time.Duration
	// Limit is how many requests of this process may be in progress at the same time. The inbox parks
	// messages above it for a short time. Default 8: half of the default workers of an inbox, so that a slow
	// provider does not occupy all workers.
	Limit int
	// Trip is the number of consecutive requests without an answer that opens the circuit breaker. Then no
	// request is sent for the time Rest, and after it one request as a probe. Meanwhile messages are parked,
	// without a failed attempt. Defaults 10 and 5 s.
	Trip int
	Rest time.Duration
}

// Provider is an external service that receives calls.
type Provider struct {
	name    string
	timeout time.Duration
	breaker *vitals.Breaker
}

// NewProvider returns a provider. Logs and errors contain its name.
func NewProvider(name string, o *ProviderOptions) *Provider {
	d := ProviderOptions{}
	if o != nil {
		d = *o
	}
	or := func(d, usual time.Duration) time.Duration {
		if d <= 0 {
			return usual
		}
		return d
	}
	if d.Limit <= 0 {
		d.Limit = 8
	}
	if d.Trip <= 0 {
		d.Trip = 10
	}
	return &Provider{name: name, timeout: or(d.Timeout, 10*time.Second),
		breaker: &vitals.Breaker{Limit: d.Limit, Trip: d.Trip, Rest: or(d.Rest, 5*time.Second)}}
}
