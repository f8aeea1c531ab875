// Package sagarow has the rules for the row of a saga that all stores share: checks of limits, the encoded
// state, and the time at which the saga is due.
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

// Limits of a row. The tables have constraints with the same limits.
const (
	MaxName   = 255       // bytes of a name, key, id, hash, session or step
	MaxOrigin = 16 << 10  // bytes of an origin
	MaxData   = 900 << 10 // bytes of an input, state or definition
	MaxError  = 1 << 10   // bytes of an error; a longer error is cut
	MaxClaim  = 8 << 20   // bytes of inputs and states in one claim; a single saga may have more
)

// Overdue is the delay after which a due saga counts as overdue.
const Overdue = time.Minute

// LeftToOthers is the prefix of the error of a saga that a build could not run.
const LeftToOthers = "left to another build: "

// Left is the time after which a saga counts as overdue if builds left it to another build. It is long enough
// for a deployment. Consumers use the same limit for types of messages.
const Left = 15 * time.Minute

// Late reports whether a saga counts as overdue.
func Late(s *store.Saga, now time.Time) bool {
	left := s.Session == "" && s.Ended.IsZero() && !s.Retry.IsZero() &&
		strings.HasPrefix(s.Error, LeftToOthers) && !s.Since.IsZero() && now.Sub(s.Since) > Left
	return left || !s.Due.IsZero() && now.Sub(s.Due) > Overdue
}

// Skipped is the wait before the next claim of a due saga that another transaction has locked.
const Skipped = time.Second

// Check returns an error if a new saga exceeds a limit.
func Check(s *store.Saga) error {
	err := cmp.Or(named(s.Name, s.Key), text("id", s.ID, 0, MaxName), text("hash", s.Hash, 1, MaxName),
		text("input", s.Input, 0, MaxData), text("origin", s.Origin, 0, MaxOrigin),
		text("state", s.State, 0, MaxData),
		text("session", s.Session, 0, MaxName), checkStatus(&s.SagaStatus))
	return identified(s.Name, s.Key, err)
}

// CheckStarts returns an error if a saga exceeds a limit. It also returns an error if several sagas are
// started and one has Instead.
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

// CheckMove returns an error if an update exceeds a limit.
func CheckMove(m *store.SagaUpdate) error {
	err := cmp.Or(named(m.Name, m.Key), text("hash", m.Hash, 0, MaxName), text("state", m.State, 0, MaxData),
		checkStatus(&m.SagaStatus))
	return identified(m.Name, m.Key, err)
}

// CheckDefinition returns an error if a definition exceeds a limit.
func CheckDefinition(d *store.SagaDefinition) error {
	err := cmp.Or(text("name", d.Name, 1, MaxName), text("hash", d.Hash, 1, MaxName),
		text("text", d.Written, 0, MaxData))
	if err != nil {
		return fmt.Errorf("definition %q of a saga: %w", excerpt(d.Name), err)
	}
	return nil
}

// Named reports whether the name and the key are valid. No saga has other ones.
func Named(name, key string) bool { return named(name, key) == nil }

func identified(name, key string, err error) error {
	if err != nil {
		return fmt.Errorf("saga %q %q: %w", excerpt(name), excerpt(key), err)
	}
	return nil
}

// excerpt returns the beginning of s, for an error text.
func excerpt(s string) string { return column.Clip(s, 64) }

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
		return fmt.Errorf("the %s has a zero byte, which text columns cannot store", what)
	}
	return nil
}

// StoredStatus returns s with the precision and the limits of the database.
func StoredStatus(s store.SagaStatus) store.SagaStatus {
	s.Error = column.Clip(s.Error, MaxError)
	s.Since, s.Retry = Time(s.Since), Time(s.Retry)
	return s
}

// First returns the version of a new saga.
func First(s *store.Saga) int64 { return cmp.Or(s.Version, 1) }

// Time returns t in UTC, in whole milliseconds. All stores store times like this.
func Time(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// Move returns s after the update m. The argument now is the time of the database's clock.
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

// Bytes returns the size of s that counts against MaxClaim.
func Bytes(s *store.Saga) int { return len(s.Input) + len(s.State) }

// Parent returns the name, key and id of the saga that started the child with this origin. They are empty if
// there is none.
func Parent(origin string) (name, key, id string) {
	var o struct {
		Parent struct{ Name, Key, ID string }
	}
	if json.Unmarshal([]byte(origin), &o) != nil {
		return "", "", ""
	}
	return o.Parent.Name, o.Parent.Key, o.Parent.ID
}

// OnlyKey reports whether q selects by key, or by key and name, and by nothing else.
func OnlyKey(q *store.SagaQuery) bool {
	filters := q.ID != "" || len(q.Status) > 0 || q.Stuck || q.Paused || q.Failing || q.Step != "" ||
		q.Error != "" ||
		!q.StartedBefore.IsZero() || !q.StartedAfter.IsZero() || q.After != nil || q.Light
	return q.Key != "" && !filters
}

// Live reports whether q selects only sagas that have not ended. An index contains only these.
func Live(q *store.SagaQuery) bool {
	ended := func(status string) bool { return status != "running" && status != "compensating" }
	return q.Stuck || q.Paused || q.Failing || len(q.Status) > 0 && !slices.ContainsFunc(q.Status, ended)
}

// Within returns the maximum number of sagas that a query reads from an index for q; 0 means all. If the
// index evaluates all filters of q, this is the limit of the list.
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

// Listing collects the result of a SagaQuery row by row. List has the selected sagas. To is the last examined
// saga if Scan ended the list.
type Listing struct {
	Scan, Limit int
	List        []store.Saga
	To          *store.SagaRef
}

// Add adds the nth examined saga.
func (l *Listing) Add(s *store.Saga, n int, selected bool) {
	if selected && len(l.List) < l.Limit {
		l.List = append(l.List, *s)
	}
	if l.Scan > 0 && n == l.Scan && len(l.List) < l.Limit {
		l.To = &store.SagaRef{Name: s.Name, Key: s.Key}
	}
}
