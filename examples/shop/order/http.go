package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/skald-go/skald/httpidem"
)

// Limits of a request.
const (
	maxBody     = 64 << 10
	maxName     = 100 // bytes of a customer name or SKU
	maxItems    = 100
	maxQuantity = 1000
	maxAddress  = 500
)

// Handler serves
//
//	POST /orders              {"customer", "items": [{"sku", "quantity"}]}, with an Idempotency-Key
//	GET  /orders/{id}
//	GET  /orders/{id}/history  how the order came to where it is, for its customer
//	GET  /orders/{id}/status   the state of its saga and what blocks it, for support: Options.Where
//	POST /orders/{id}/cancel
//	PUT  /orders/{id}/address {"address"}
//
// A new key answers 201, a repeat gets the same answer, another body 422: see package httpidem. A cancel or
// change request answers 202 the first time and 200 when repeated, or 409 once the order has ended or is
// being cancelled. Another address costs a fee. The history shows the answer. Errors are
// application/problem+json (RFC 9457).
func (s *Order[TTx]) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders", httpidem.Handle(s.home.Store, "POST /orders", httpidem.OneTenant,
		&httpidem.Options{MaxBody: maxBody, Cache: s.o.Seen, Logger: s.o.Logger}, s.post))
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		found, err := s.Find(r.Context(), r.PathValue("id"))
		answer(w, r, http.StatusOK, found, err)
	})
	mux.HandleFunc("GET /orders/{id}/history", func(w http.ResponseWriter, r *http.Request) {
		status, err := s.Status(r.Context(), r.PathValue("id"))
		answer(w, r, http.StatusOK, status, err)
	})
	if s.o.Where != nil {
		mux.HandleFunc("GET /orders/{id}/status", func(w http.ResponseWriter, r *http.Request) {
			asked := r.Clone(r.Context())
			asked.URL.Path, asked.URL.RawPath = "/"+r.PathValue("id"), "/"+url.PathEscape(r.PathValue("id"))
			s.o.Where.ServeHTTP(w, asked)
		})
	}
	mux.HandleFunc("POST /orders/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		fresh, err := s.Cancel(r.Context(), r.PathValue("id"))
		s.replyStatus(w, r, fresh, err)
	})
	mux.HandleFunc("PUT /orders/{id}/address", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Address string }
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body)
		if err != nil || body.Address == "" || len(body.Address) > maxAddress {
			problem(w, http.StatusBadRequest,
				fmt.Sprintf("the body must be an object whose address has 1 to %d bytes", maxAddress))
			return
		}
		fresh, err := s.Change(r.Context(), r.PathValue("id"), body.Address)
		s.replyStatus(w, r, fresh, err)
	})
	// protects against requests from other sites
	return http.NewCrossOriginProtection().Handler(mux)
}

// replyStatus answers a cancel or change request with the order's status.
func (s *Order[TTx]) replyStatus(w http.ResponseWriter, r *http.Request, fresh bool, err error) {
	if err != nil {
		answer(w, r, 0, nil, err)
		return
	}
	code := http.StatusOK
	if fresh {
		code = http.StatusAccepted
	}
	status, err := s.Status(r.Context(), r.PathValue("id"))
	answer(w, r, code, status, err)
}

// post places an order: its rows, order.placed and the answer are one commit.
func (s *Order[TTx]) post(ctx context.Context, tx TTx,
	q httpidem.Request[[]byte]) (httpidem.Reply[Summary], error) {
	r, err := read(q.Body)
	if err != nil {
		return httpidem.Reply[Summary]{}, &httpidem.Problem{Status: http.StatusBadRequest,
			Detail: err.Error()}
	}
	o, err := s.place(ctx, tx, r)
	return httpidem.Created(Summary{Order: o, State: Pending}, "/orders/"+o.ID), err
}

func read(body []byte) (req Request, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		return req, fmt.Errorf("the body is not an order: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return req, errors.Join(errors.New("there is more than one order in the body"), err)
	}
	return req, check(req)
}

func check(r Request) error {
	if r.Customer == "" || len(r.Customer) > maxName {
		return fmt.Errorf("the customer must have 1 to %d bytes", maxName)
	}
	if len(r.Items) == 0 || len(r.Items) > maxItems {
		return fmt.Errorf("an order has 1 to %d items", maxItems)
	}
	for i, line := range r.Items {
		if line.SKU == "" || len(line.SKU) > maxName {
			return fmt.Errorf("item %d: the SKU must have 1 to %d bytes", i, maxName)
		}
		if line.Quantity < 1 || line.Quantity > maxQuantity {
			return fmt.Errorf("item %d: the quantity must be 1 to %d", i, maxQuantity)
		}
	}
	return nil
}

func answer(w http.ResponseWriter, r *http.Request, code int, body any, err error) {
	switch {
	case err == nil:
		send(w, code, "application/json", body)
	case errors.Is(err, ErrNotFound):
		problem(w, http.StatusNotFound, ErrNotFound.Error())
	case errors.Is(err, ErrTooLate):
		problem(w, http.StatusConflict, ErrTooLate.Error())
	case errors.Is(err, ErrNotYet):
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, ErrNotYet.Error())
	default:
		slog.ErrorContext(r.Context(), "order service", "method", r.Method, "path", r.URL.Path, "error", err)
		problem(w, http.StatusInternalServerError,
			"internal error; you may repeat the request")
	}
}

func problem(w http.ResponseWriter, code int, detail string) {
	send(w, code, "application/problem+json", map[string]any{
		"type": "about:blank", "title": http.StatusText(code), "status": code, "detail": detail,
	})
}

func send(w http.ResponseWriter, code int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
