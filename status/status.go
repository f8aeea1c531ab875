// Package status answers "where is order 123?": how the sagas of a key stand, choreographed and
// orchestrated, what holds them up, and the command that frees each.
//
// It asks one database, or over HTTP those of several services. What nobody answered is named, never guessed.
package status

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// An Answer says where the sagas of a key stand: its names in JSON are stable.
type Answer struct {
	Key   string `json:"key"`
	Sagas []Saga `json:"sagas"`
	Held  []Held `json:"held"`
	// Silent are those who did not answer: messages that hold the saga may be there, too.
	Silent []Silent `json:"silent"`
}

// A Saga is how a saga stands, at the service in whose database that is kept.
type Saga struct {
	Service string `json:"service,omitempty"`
	operate.SagaStanding
	TraceURL string `json:"trace_url,omitempty"` // of its trace: see Options.TraceURL
}

// Held is a message that holds the saga up at a service.
type Held struct {
	Service string `json:"service,omitempty"`
	operate.Holder
}

// Silent is a service that gave no answer, and why.
type Silent struct {
	Service string `json:"service"`
	Why     string `json:"why"`
}

// Ask asks one database. At is how the command finds that database: see operate.Holders. A key that nothing
// is known of is no error: see Answer.Known.
func Ask(ctx context.Context, db store.Lister, key, at string) (Answer, error) {
	a := empty(key)
	sagas, err := operate.SagaStandings(ctx, db, key, at)
	a.stand("", sagas)
	if err != nil {
		return a, err
	}
	held, err := operate.Holders(ctx, db, keysOf(key, sagas), at)
	a.hold("", held)
	return a, err
}

// Known tells whether anything is known of the key.
func (a *Answer) Known() bool { return len(a.Sagas)+len(a.Held) > 0 }

func (a *Answer) hold(service string, held []operate.Holder) {
	for _, h := range held {
		a.Held = append(a.Held, Held{service, h})
	}
}

func (a *Answer) stand(service string, sagas []operate.SagaStanding) {
	for i := range sagas {
		a.Sagas = append(a.Sagas, Saga{Service: service, SagaStanding: sagas[i]})
	}
}

// Link names the trace of each saga that has one by a template such as "https://traces.example/{trace}".
func (a *Answer) Link(template string) {
	for i := range a.Sagas {
		if s := &a.Sagas[i]; s.Trace != "" && template != "" {
			s.TraceURL = strings.ReplaceAll(template, "{trace}", s.Trace)
		}
	}
}

// CheckTraceURL refuses a template that Link cannot use.
func CheckTraceURL(template string) error {
	u, err := url.Parse(template)
	if template != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		!strings.Contains(template, "{trace}")) {
		return fmt.Errorf("the URL of traces is %q: give an http or https URL that contains {trace}, such as https://traces.example/{trace}", template)
	}
	return nil
}

func empty(key string) Answer {
	return Answer{Key: key, Sagas: []Saga{}, Held: []Held{}, Silent: []Silent{}}
}

// keysOf are the keys of the messages of sagas: the key of the sagas is taken for one.
func keysOf(key string, sagas []operate.SagaStanding) [][]byte {
	keys := [][]byte{[]byte(key)}
	for i := range sagas {
		keys = append(keys, sagas[i].Keys...)
	}
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}
