// Package status answers the question "where is order 123?". An answer has the state of the sagas of a key,
// choreographed and orchestrated. It also has the messages that block them, and the commands that unblock
// them.
//
// The package reads one database, or also queries other services over HTTP. The answer names each service
// that did not respond.
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

// Answer has the state of the sagas of a key. Its field names in JSON are stable.
type Answer struct {
	Key   string `json:"key"`
	Sagas []Saga `json:"sagas"`
	Held  []Held `json:"held"`
	// Silent has the services that did not respond. They may have messages that block the saga.
	Silent []Silent `json:"silent"`
}

// Saga is the state of a saga at one service.
type Saga struct {
	Service string `json:"service,omitempty"`
	operate.SagaProgress
	TraceURL string `json:"trace_url,omitempty"` // URL of the saga's trace; see Options.TraceURL
}

// Held is a message that blocks the saga at a service.
type Held struct {
	Service string `json:"service,omitempty"`
	operate.BlockingMessage
}

// Silent is a service that did not respond, and the reason.
type Silent struct {
	Service string `json:"service"`
	Why     string `json:"why"`
}

// Ask returns the answer from one database. The argument dbFlag is the flag that selects the database in
// commands: see operate.BlockingMessages. For an unknown key Ask returns no error: see Answer.Known.
func Ask(ctx context.Context, db store.Lister, key, dbFlag string) (Answer, error) {
	a := empty(key)
	sagas, err := operate.ReadSagaProgress(ctx, db, key, dbFlag)
	a.addSagas("", sagas)
	if err != nil {
		return a, err
	}
	held, err := operate.BlockingMessages(ctx, db, keysOf(key, sagas), dbFlag)
	a.addHeld("", held)
	return a, err
}

// Known reports whether the answer has a saga or a message.
func (a *Answer) Known() bool { return len(a.Sagas)+len(a.Held) > 0 }

func (a *Answer) addHeld(service string, held []operate.BlockingMessage) {
	for _, h := range held {
		a.Held = append(a.Held, Held{service, h})
	}
}

func (a *Answer) addSagas(service string, sagas []operate.SagaProgress) {
	for i := range sagas {
		a.Sagas = append(a.Sagas, Saga{Service: service, SagaProgress: sagas[i]})
	}
}

// Link sets the URL of each saga's trace from a template, such as "https://traces.example/{trace}".
func (a *Answer) Link(template string) {
	for i := range a.Sagas {
		if s := &a.Sagas[i]; s.Trace != "" && template != "" {
			s.TraceURL = strings.ReplaceAll(template, "{trace}", s.Trace)
		}
	}
}

// CheckTraceURL returns an error for a template that Link cannot use.
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

// keysOf returns the keys of the messages of sagas, and the key of the sagas themselves.
func keysOf(key string, sagas []operate.SagaProgress) [][]byte {
	keys := [][]byte{[]byte(key)}
	for i := range sagas {
		keys = append(keys, sagas[i].Keys...)
	}
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}
