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
	patience = time.Second     // for which a message waits for an answer of the registry
	pause    = 2 * time.Second // between two requests to a registry that does not answer
)

// errSilent: the registry has not answered within patience. The request goes on, and its answer is used.
var errSilent = errors.New("the registry has not answered yet")

// A gate keeps requests from a registry that does not answer. After a failure it lets one request pass per
// pause; all other callers get the reason of the failure at once. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	why    error // of the last failure; nil: the registry answered
	until  time.Time
	trying bool
	logged condition
}

// A condition is how requests to the registry end.
type condition int

const (
	answers condition = iota
	away
	refusing // of 401 and 403
)

// closed returns the error for a caller that must not ask now; nil: it may.
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

// enter lets one caller ask. A caller that entered calls leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(); err != nil {
		return err
	}
	g.trying = g.why != nil
	return nil
}

// leave records the outcome of a request, and reports whether its condition differs from the one before.
func (g *gate) leave(err error) (is condition, changed bool) {
	switch {
	case refusesLogin(err):
		is = refusing
	case unreachable(err):
		is = away
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying, g.why, g.until = false, err, time.Now().Add(pause)
	if is == answers {
		g.why = nil
	}
	changed = is != g.logged
	g.logged = is
	return is, changed
}

// silent closes the gate because of a request that is still in progress.
func (g *gate) silent() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil {
		g.why, g.until = errSilent, time.Now().Add(pause)
	}
}

// unreachable reports whether an error is one of the registry as a whole. An answer to one request, even one
// that makes no sense, says nothing about the next.
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

// refusesLogin reports an answer that the configuration of this program has to cure.
func refusesLogin(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden)
}

// ask calls the registry, unless the gate is closed, and logs when the registry goes away or comes back.
func ask[V any](r *Registry, c *Config, call func(server) (V, error)) (v V, err error) {
	if err := r.gate.enter(); err != nil {
		return v, err
	}
	err = errEnded
	defer func() { // also where the call panics
		is, changed := r.gate.leave(err)
		if changed {
			c.tell(is, err)
		}
	}()
	v, err = call(c.server)
	err = loginRefused(err)
	return v, err
}

func (c *Config) tell(is condition, err error) {
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

// loginRefused adds the remedy to an answer of 401 or 403.
func loginRefused(err error) error {
	var answer *sr.ResponseError
	if !refusesLogin(err) || !errors.As(err, &answer) {
		return err
	}
	return fmt.Errorf("configuration error: %s answers %d %s to the user that sr.BasicAuth or sr.BearerToken names: "+
		"correct the login, or grant the user read access to the schemas: %w", answer.URL, answer.StatusCode,
		http.StatusText(answer.StatusCode), err)
}
