package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Progress is the answer to a customer. It contains no error text, no step and no command for operators.
type Progress struct {
	Key     string    `json:"key"`
	State   string    `json:"state"` // the result of CustomerOptions.State
	Started time.Time `json:"started_at"`
	Changed time.Time `json:"changed_at"`
}

// CustomerOptions has the options of Customer. The zero value works.
type CustomerOptions struct {
	// Name is the flow or definition of the saga in the answer. Default: the saga of the key that started
	// last.
	Name string
	// State returns the word for the state of a saga that customers see. If it returns "", or if State is
	// nil, the answer has the result of CustomerState.
	State func(*operate.SagaProgress) string
	// Deadline limits the time of an answer. Default 2 s.
	Deadline time.Duration
	// Logger receives the errors of the database, which customers do not see. Default slog.Default().
	Logger *slog.Logger
}

// CustomerState returns in_progress, completed, cancelling or cancelled. A saga that is stuck, paused or
// overdue is in progress for a customer.
func CustomerState(s *operate.SagaProgress) string {
	switch s.State {
	case "done":
		return "completed"
	case "compensating":
		return "cancelling"
	case "compensated":
		return "cancelled"
	}
	return "in_progress"
}

// Customer returns a handler that answers customers with a Progress in JSON. You can mount it at any route:
//
//	mux.Handle("GET /subscriptions/{id}/status", status.Customer(db, keyOf, nil))
//
// The function key returns the key of a request, for example r.PathValue("id"). It must also check access,
// and return "" if the caller may not see the saga. The handler answers 404 for "" and for an unknown key. It
// answers 503 with Retry-After if the database does not answer. It needs the database rights of a reader.
func Customer(db store.Lister, key func(*http.Request) string, o *CustomerOptions) http.Handler {
	h := &customer{db: db, key: key}
	if o != nil {
		h.o = *o
	}
	if h.o.Deadline <= 0 {
		h.o.Deadline = 2 * time.Second
	}
	if h.o.Logger == nil {
		h.o.Logger = slog.Default()
	}
	return h
}

type customer struct {
	db  store.Lister
	key func(*http.Request) string
	o   CustomerOptions
}

func (h *customer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), h.o.Deadline)
	defer stop()
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	if !checkMethod(w, r) {
		return
	}
	key := h.key(r)
	if key == "" || !textual(key) {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	s, err := h.saga(ctx, key)
	switch {
	case r.Context().Err() != nil: // the client has disconnected
		return
	case err != nil:
		h.o.Logger.WarnContext(ctx, "status: a customer got no answer", "key", key, "error", err)
		head.Set("Retry-After", "2")
		http.Error(w, "the status is not available now, try again later", http.StatusServiceUnavailable)
		return
	case s == nil:
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	state := ""
	if h.o.State != nil {
		state = h.o.State(s)
	}
	if state == "" {
		state = CustomerState(s)
	}
	head.Set("Content-Type", "application/json")
	head.Set("X-Content-Type-Options", "nosniff")
	// an error means that the client has disconnected
	_ = json.NewEncoder(w).Encode(Progress{Key: key, State: state, Started: s.Started, Changed: s.Changed})
}

// saga returns the saga for the answer, or nil if there is none.
func (h *customer) saga(ctx context.Context, key string) (last *operate.SagaProgress, err error) {
	list, err := operate.ReadSagaProgress(ctx, h.db, key, "")
	if err != nil {
		return nil, fmt.Errorf("read the sagas of a key: %w", err)
	}
	for i := range list {
		s := &list[i]
		if (h.o.Name == "" || s.Name == h.o.Name) && (last == nil || s.Started.After(last.Started)) {
			last = s
		}
	}
	return last, nil
}
