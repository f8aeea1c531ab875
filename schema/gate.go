// This file limits the requests to a registry that does not answer.

package schema

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
)

const (
	patience = time.Second     // the maximum time that a message waits for the registry
	pause    = 2 * time.Second // the interval of requests while the registry does not answer
)

// errSilent is returned if the registry does not answer within patience. The request continues, and a later
// message uses its answer.
var errSilent = errors.New("the registry has not answered yet")

// gate limits requests to a registry that does not answer. After a failure it admits one request per pause.
// All other callers get the error of that failure immediately. The zero value is open.
type gate struct {
	mu     sync.Mutex
	why    error // the last failure; nil if the registry answered after it
	until  time.Time
	trying bool
	logged condition
}

// condition is the condition of the registry, as its last answer shows.
type condition int

const (
	answers condition = iota
	away
	refusing // status 401 or 403
)

// closed returns an error if the caller must not send a request now.
func (g *gate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal()
}

func (g *gate) refusal() error {
	if g.why == nil || !g.trying && !time.Now().Before(g.until) {
		return nil
	}
	return skald.Outage(fmt.Errorf("the schema registry is not asked for now: %w", g.why))
}

// enter admits a caller, or returns an error. An admitted caller must call leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(); err != nil {
		return err
	}
	g.trying = g.why != nil
	return nil
}

// leave records the result of a request. The result changed is true if the condition of the registry has
// changed.
func (g *gate) leave(err error) (state condition, changed bool) {
	switch {
	case refusesLogin(err):
		state = refusing
	case unreachable(err):
		state = away
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying, g.why, g.until = false, err, time.Now().Add(pause)
	if state == answers {
		g.why = nil
	}
	changed = state != g.logged
	g.logged = state
	return state, changed
}

// silent closes the gate because a request has no answer yet.
func (g *gate) silent() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil {
		g.why, g.until = errSilent, time.Now().Add(pause)
	}
}

// unreachable returns true if err is about the whole registry. An invalid answer to one request is not,
// because the next answer may be valid.
func unreachable(err error) bool {
	var answer *sr.ResponseError
	var odd *oddAnswerError
	switch {
	case err == nil, errors.As(err, &odd):
		return false
	case errors.As(err, &answer):
		return answer.StatusCode >= http.StatusInternalServerError || refusesLogin(err) ||
			answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
	}
	return true
}

// refusesLogin returns true if the registry refuses the user of this program, which is a configuration error.
func refusesLogin(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden)
}

// ask sends a request to the registry, unless the gate is closed. It logs when the registry stops and starts
// to answer.
func ask[V any](r *Registry, c *Config, call func(server) (V, error)) (v V, err error) {
	if err := r.gate.enter(); err != nil {
		return v, err
	}
	err = errEnded
	defer func() { // deferred because call may panic
		is, changed := r.gate.leave(err)
		if changed {
			c.logChange(is, err)
		}
	}()
	v, err = call(c.server)
	err = loginRefused(err)
	return v, err
}

func (c *Config) logChange(is condition, err error) {
	switch is {
	case refusing:
		c.Logger.Error("the schema registry refuses this program: messages of unknown schemas wait", "error",
			err)
	case away:
		c.Logger.Warn("the schema registry does not answer: messages of unknown schemas wait", "error", err)
	default:
		c.Logger.Info("the schema registry answers again")
	}
}

// loginRefused adds the remedy to an answer with status 401 or 403.
func loginRefused(err error) error {
	var answer *sr.ResponseError
	if !refusesLogin(err) || !errors.As(err, &answer) {
		return err
	}
	return fmt.Errorf("configuration error: %s answers %d %s to the user that sr.BasicAuth or sr.BearerToken names: "+
		"correct the login, or grant the user read access to the schemas: %w", answer.URL, answer.StatusCode,
		http.StatusText(answer.StatusCode), err)
}
