package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	keyHeader = "Idempotency-Key"
	maxBody   = 4 << 10
	// patience limits the ledger's work. The work continues if the client disconnects.
	patience = 10 * time.Second
)

// Server serves a Ledger and misbehaves at random.
type Server struct {
	ledger inside
	moods  *Moods
}

// inside is a Ledger on any kind of database.
type inside interface {
	Gateway
	decline(ctx context.Context, key string, m Move) error
	forget(ctx context.Context, key string, after time.Duration) error
}

// NewServer returns a server of l. If moods is nil it does not misbehave.
func NewServer[TTx any](l *Ledger[TTx], moods *Moods) *Server {
	if moods == nil {
		moods = NewMoods(0, Rates{})
	}
	return &Server{l, moods}
}

// Handler serves
//
//	POST   /charges      {"customer", "order", "cents"}, with an Idempotency-Key
//	POST   /refunds      the same
//	DELETE /moves/{key}  cancels a key: 204 nothing was moved and nothing will be, 200 with what was moved before
//	GET    /moves/{key}  looks it up: 200 or 404
//
// A move answers 200 with its receipt, or 402 for a refusal; a repeat gets the same answer. 422 means that
// the key was used for another request. Errors are application/problem+json (RFC 9457).
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) { s.move(w, r, Charge) })
	mux.HandleFunc("POST /refunds", func(w http.ResponseWriter, r *http.Request) { s.move(w, r, Refund) })
	mux.HandleFunc("DELETE /moves/{key}", s.cancel)
	mux.HandleFunc("GET /moves/{key}", s.find)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait(r.Context(), s.moods.slowness())
		if s.moods.Is(Busy, s.moods.rates.Busy) {
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusServiceUnavailable, "busy; the request was not started")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// wait sleeps for d, or until the client disconnects.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Server) move(w http.ResponseWriter, r *http.Request, kind string) {
	var m Move
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(&m)
	key := r.Header.Get(keyHeader)
	if err == nil {
		err = Check(key, m)
	}
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	receipt, err := s.carry(ctx, kind, key, m)
	if err == nil && s.moods.Is(Failed, s.moods.rates.Fail) {
		problem(w, http.StatusInternalServerError, "internal error; the money may have been moved")
		return
	}
	if err == nil && s.moods.Is(Hung, s.moods.rates.Hang) {
		wait(r.Context(), s.moods.rates.HangFor)
		problem(w, http.StatusGatewayTimeout, "timeout; the money may have been moved")
		return
	}
	answer(w, r, receipt, err)
}

func (s *Server) carry(ctx context.Context, kind, key string, m Move) (r Receipt, err error) {
	switch {
	case kind == Refund:
		r, err = s.ledger.Refund(ctx, key, m)
	case s.moods.Is(Declined, s.moods.rates.Decline):
		if err := s.ledger.decline(ctx, key, m); err != nil {
			return r, err
		}
		r, err = s.ledger.Charge(ctx, key, m) // it was paid before
	default:
		r, err = s.ledger.Charge(ctx, key, m)
	}
	if err == nil && s.moods.Is(Forgot, s.moods.rates.Forget) {
		err = s.ledger.forget(ctx, key, s.moods.rates.ForgetAfter)
	}
	return r, err
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	receipt, done, err := s.ledger.Cancel(r.Context(), r.PathValue("key"))
	if err == nil && !done {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, r, receipt, err)
}

func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	receipt, found, err := s.ledger.Find(r.Context(), r.PathValue("key"))
	if err == nil && !found {
		problem(w, http.StatusNotFound, "nothing was moved under this key")
		return
	}
	answer(w, r, receipt, err)
}

func answer(w http.ResponseWriter, r *http.Request, body Receipt, err error) {
	var refused *RefusedError
	switch {
	case err == nil:
		send(w, http.StatusOK, "application/json", body)
	case errors.As(err, &refused):
		problem(w, http.StatusPaymentRequired, refused.Reason)
	case errors.Is(err, ErrOther):
		problem(w, http.StatusUnprocessableEntity, ErrOther.Error())
	default:
		slog.ErrorContext(r.Context(), "gateway", "method", r.Method, "path", r.URL.Path, "error", err)
		problem(w, http.StatusInternalServerError,
			fmt.Sprintf("the result of %s is unknown; retry with the same key", r.Method))
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
