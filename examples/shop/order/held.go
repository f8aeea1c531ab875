package order

import (
	"context"
	"log/slog"
	"net/http"
)

// Held is a message that holds an order, or a service that could not be asked whether it has one.
type Held struct {
	Service  string `json:"service"`
	Consumer string `json:"consumer"`
	// parked, dead, quarantined, or unknown: the service's database, or its process, gave no answer
	State    string `json:"state"`
	ID       string `json:"id,omitempty"`   // the message's
	Type     string `json:"type,omitempty"` // the same
	Attempts int    `json:"attempts"`       // that failed
	Why      string `json:"why,omitempty"`  // the last one did
	// that frees the order, once the cause is gone. No password is in it
	Command string `json:"command,omitempty"`

	DueSeconds  float64 `json:"due_seconds,omitempty"` // parked: until it is tried again by itself; none: now
	Kind        string  `json:"kind,omitempty"`        // dead: how it came to that
	Fingerprint string  `json:"fingerprint,omitempty"` // dead: the group of its failure
}

// held adds to the status what holds the order. What cannot be asked is no reason to hide the rest.
func (s *Order[TTx]) held(r *http.Request, status *Status) {
	if s.o.Held == nil {
		return
	}
	var err error
	if status.Held, err = s.o.Held(r.Context(), status.ID); err != nil {
		slog.WarnContext(r.Context(), "order service: not all could be asked what holds an order", "order", status.ID, "error", err)
	}
}

// A Finder tells what holds an order. With an error it tells what it knows all the same.
type Finder func(ctx context.Context, order string) ([]Held, error)
