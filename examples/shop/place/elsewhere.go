package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/service"
)

const (
	// answering is shorter than hearing: that a database gave no answer is to be heard from the process which
	// asked it.
	answering = hearing * 3 / 4
	maxAnswer = 1 << 20
)

// Elsewhere is where services of other processes are asked what holds an order.
type Elsewhere map[string]*url.URL

// Add takes NAME=URL.
func (e Elsewhere) Add(text string) error {
	name, at, _ := strings.Cut(text, "=")
	u, err := url.Parse(at)
	switch {
	case !slices.Contains(service.Names(), name):
		return &UsageError{What: fmt.Sprintf("there is no service %q: give NAME=URL, NAME one of %s", name, strings.Join(service.Names(), ", "))}
	case e[name] != nil:
		return &UsageError{What: name + " is asked twice: give one of its instances, they share its database"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return &UsageError{What: fmt.Sprintf("where is %s? Give %s=http://host:port, where its process has its --answer", name, name)}
	}
	e[name] = u
	return nil
}

// Answer tells other processes what holds an order at the services that are open here:
//
//	GET /held/{order}               of all of them
//	GET /held/{order}?service=NAME  of one; 404 if it is not open here, so that who asks the wrong process hears of it
func (d *Databases[TTx]) Answer(prefix string) http.Handler {
	events := event.New(prefix)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /held/{order}", func(w http.ResponseWriter, r *http.Request) {
		asked := d.here(events)
		if name := r.URL.Query().Get("service"); name != "" {
			find := asked[name]
			if find == nil {
				http.Error(w, "this process does not serve it", http.StatusNotFound)
				return
			}
			asked = map[string]order.Finder{name: find}
		}
		ctx, stop := context.WithTimeout(r.Context(), answering)
		defer stop()
		found, err := askAll(ctx, asked, r.PathValue("order"))
		if err != nil {
			slog.WarnContext(ctx, "not all could be asked what holds an order", "order", r.PathValue("order"), "error", err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(append([]order.Held{}, found...)) // who asked is gone if this fails
	})
	return mux
}

// finders ask the services that are elsewhere. One that gives no answer is told as unknown.
func (e Elsewhere) finders(events *event.Events) map[string]order.Finder {
	out := map[string]order.Finder{}
	for name, at := range e {
		out[name] = func(ctx context.Context, id string) ([]order.Held, error) {
			held, err := ask(ctx, at, name, id)
			if err == nil {
				return held, nil
			}
			why := fmt.Sprintf("asked at %s: %v; the process of %s is to be there, with its --answer", at.Redacted(), err, name)
			unknown := order.Held{Service: name, Consumer: events.Group(name), State: "unknown", Why: why}
			return []order.Held{unknown}, fmt.Errorf("ask %s at %s what holds %s: %w", name, at.Redacted(), id, err)
		}
	}
	return out
}

// ask asks once. Whatever else than a list of what holds the order at this service comes back is an error.
func ask(ctx context.Context, at *url.URL, name, id string) (out []order.Held, err error) {
	to := at.JoinPath("held", url.PathEscape(id))
	to.RawQuery = url.Values{"service": {name}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, noAnswer(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New("it answered " + answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, noAnswer(err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	other := func(h order.Held) bool { return h.Service != name || h.State == "" }
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	if out == nil || slices.ContainsFunc(out, other) {
		return nil, errors.New("its answer is no list of what holds an order at " + name)
	}
	return out, nil
}

// noAnswer leaves out of err what was asked, which stands beside it, and of a timeout where it was: it is
// ours.
func noAnswer(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		err = asked.Err
	}
	return fmt.Errorf("no answer: %w", err)
}
