// Package sagarow is the row of a saga: its checks in all stores, its encoded state, and when it is due.
package sagarow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Limits of a row. The tables hold the same.
const (
	MaxName   = 255       // bytes of a name, a key, an id, a hash, a session, a step
	MaxOrigin = 16 << 10  // bytes of an origin
	MaxData   = 900 << 10 // bytes of an input, a state, a definition
	MaxError  = 1 << 10   // bytes of an error; longer ones are cut
	MaxClaim  = 8 << 20   // bytes of inputs and states that one claim reads, unless it reads one saga only
)

// Overdue is how late a saga is before it counts as overdue.
const Overdue = time.Minute

// LeftToOthers begins the error of a saga that a build could not take on.
const LeftToOthers = "left to another build: "

// Left is for how long builds may leave a saga to another one before it counts as overdue. A deploy may take
// as long: it is what consumers allow for types of messages.
const Left = 15 * time.Minute

// Late tells whether a saga counts as overdue.
func Late(s *store.Saga, now time.Time) bool {
	left := s.Session == "" && s.Ended.IsZero() && !s.Retry.IsZero() &&
		strings.HasPrefix(s.Error, LeftToOthers) && !s.Since.IsZero() && now.Sub(s.Since) > Left
	return left || !s.Due.IsZero() && now.Sub(s.Due) > Overdue
}

// Skipped is when to look again for a due saga that another transaction has locked.
const Skipped = time.Second

// Check says which limit a new saga breaks.
func Check(s *store.Saga) error {
	err := cmp.Or(named(s.Name, s.Key), text("id", s.ID, 0, MaxName), text("hash", s.Hash, 1, MaxName),
		text("input", s.Input, 0, MaxData), text("origin", s.Origin, 0, MaxOrigin),
		text("state", s.State, 0, MaxData),
		text("session", s.Session, 0, MaxName), checkStatus(&s.SagaStatus))
	return identified(s.Name, s.Key, err)
}

// CheckStarts returns an error if a saga breaks a limit, or if one of several has Instead.
func CheckStarts(ss []store.Saga) error {
	for i := range ss {
		err := Check(&ss[i])
		if err == nil && ss[i].Instead != "" && len(ss) > 1 {
			err = identified(ss[i].Name, ss[i].Key,
				errors.New("it replaces an ended saga: start it by itself"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckMove says which limit a move breaks.
func CheckMove(m *store.SagaUpdate) error {
	err := cmp.Or(named(m.Name, m.Key), text("hash", m.Hash, 0, MaxName), text("state", m.State, 0, MaxData),
		checkStatus(&m.SagaStatus))
	return identified(m.Name, m.Key, err)
}

// CheckDefinition says which limit a definition breaks.
func CheckDefinition(d *store.SagaDefinition) error {
	err := cmp.Or(text("name", d.Name, 1, MaxName), text("hash", d.Hash, 1, MaxName),
		text("text", d.Written, 0, MaxData))
	if err != nil {
		return fmt.Errorf("definition %q of a saga: %w", shown(d.Name), err)
	}
	return nil
}

// Named tells whether a row can be called so. Nothing is stored under other names.
func Named(name, key string) bool { return named(name, key) == nil }

func identified(name, key string, err error) error {
	if err != nil {
		return fmt.Errorf("saga %q %q: %w", shown(name), shown(key), err)
	}
	return nil
}

// shown is the beginning of a text, for an error.
func shown(s string) string { return column.Clip(s, 64) }

func named(name, key string) error {
	return cmp.Or(text("name", name, 1, MaxName), text("key", key, 1, MaxName))
}

func checkStatus(s *store.SagaStatus) error {
	return cmp.Or(text("status", s.Status, 1, MaxName), text("step", s.Step, 0, MaxName),
		text("error", column.Clip(s.Error, MaxError), 0, MaxError))
}

func text(what, s string, least, most int) error {
	switch {
	case len(s) < least:
		return fmt.Errorf("the %s is empty: give one of 1 to %d bytes", what, most)
	case len(s) > most:
		return fmt.Errorf("the %s is %d bytes, at most %d are allowed", what, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s is not UTF-8: encode bytes as text, in base64 for example", what)
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("the %s has a zero byte, which no database keeps in text", what)
	}
	return nil
}

// StoredStatus is s as it is stored.
func StoredStatus(s store.SagaStatus) store.SagaStatus {
	s.Error = column.Clip(s.Error, MaxError)
	s.Since, s.Retry = Time(s.Since), Time(s.Retry)
	return s
}

// First is the version of a new saga.
func First(s *store.Saga) int64 { return cmp.Or(s.Version, 1) }

// Time is t as every store keeps it: in UTC and milliseconds.
func Time(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// Move is what becomes of s by m, at a time of the store's.
func Move(s store.Saga, m *store.SagaUpdate, now time.Time) store.Saga {
	s.Version++
	s.Hash, s.State, s.SagaStatus, s.Changed = cmp.Or(m.Hash,
		s.Hash), m.State, StoredStatus(m.SagaStatus), now
	s.Ended = time.Time{}
	switch {
	case m.Final:
		s.Session, s.Due, s.Ended = "", time.Time{}, now
	case m.Release && m.Wake < 0:
		s.Session, s.Due = "", time.Time{}
	case m.Release:
		s.Session, s.Due = "", now.Add(m.Wake)
	case m.Lease > 0:
		s.Due = now.Add(m.Lease)
	}
	return s
}

// Bytes is how much of s a claim counts.
func Bytes(s *store.Saga) int { return len(s.Input) + len(s.State) }

// Parent is the saga whose step the child of that origin is, as package stored writes it; empty: it has none.
func Parent(origin string) (name, key, id string) {
	var o struct {
		Parent struct{ Name, Key, ID string }
	}
	if json.Unmarshal([]byte(origin), &o) != nil {
		return "", "", ""
	}
	return o.Parent.Name, o.Parent.Key, o.Parent.ID
}

// OnlyKey tells of a query for the sagas of one key, and maybe of one name, without other filters.
func OnlyKey(q *store.SagaQuery) bool {
	filters := q.ID != "" || len(q.Status) > 0 || q.Stuck || q.Paused || q.Failing || q.Step != "" ||
		q.Error != "" ||
		!q.StartedBefore.IsZero() || !q.StartedAfter.IsZero() || q.After != nil || q.Light
	return q.Key != "" && !filters
}

// Live tells of a query for sagas that have not ended, which an index knows.
func Live(q *store.SagaQuery) bool {
	ended := func(status string) bool { return status != "running" && status != "compensating" }
	return q.Stuck || q.Paused || q.Failing || len(q.Status) > 0 && !slices.ContainsFunc(q.Status, ended)
}

// Within is how many of those that an index knows are to be read at most for q; 0: all. Where nothing has to
// be looked through that is as many as are listed.
func Within(q *store.SagaQuery, limit int) int {
	through := q.ID != "" || q.Step != "" || q.Error != "" || !q.StartedBefore.IsZero() ||
		!q.StartedAfter.IsZero() || len(q.Status) > 0 && !Live(q)
	switch {
	case through:
		return q.Scan
	case q.Scan > 0:
		return min(q.Scan, limit)
	}
	return limit
}

// A Listing is the answer to a SagaQuery, as its rows come: those that are meant, and the last one of as many
// as were to be looked through.
type Listing struct {
	Scan, Limit int
	List        []store.Saga
	To          *store.SagaRef
}

// Add adds the n-th saga that was looked at.
func (l *Listing) Add(s *store.Saga, n int, meant bool) {
	if meant && len(l.List) < l.Limit {
		l.List = append(l.List, *s)
	}
	if l.Scan > 0 && n == l.Scan && len(l.List) < l.Limit {
		l.To = &store.SagaRef{Name: s.Name, Key: s.Key}
	}
}
