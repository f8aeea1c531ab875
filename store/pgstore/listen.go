package pgstore

import "github.com/skald-go/skald/store/pgstore/internal/sqlexec"

// Listener wakes the relays of this process when another one has written, or is about to commit what it
// wrote. It has one connection of its own, which must go to the server itself: a pooler in transaction mode
// has no LISTEN. Writers in Go need Options.Notify; others say SELECT pg_notify('skald_outbox', '<schema>')
// after their COMMIT. What is missed while the connection is lost is found by the relays' own looks.
type Listener = sqlexec.Listener

// Listen is a Listener at url for several schemas of that database: it wakes whoever relays from one of
// stores.
func Listen(url string, stores ...*Store) (*Listener, error) {
	all := make([]*sqlexec.Waker, len(stores))
	for i, s := range stores {
		all[i] = s.waker
	}
	return sqlexec.Listen(url, all...)
}

// Listen is a Listener at url that wakes whoever relays from s.
func (s *Store) Listen(url string) (*Listener, error) { return sqlexec.Listen(url, s.waker) }

// Listen is a Listener at url that wakes whoever relays from s.
func (s *SQLStore) Listen(url string) (*Listener, error) { return sqlexec.Listen(url, s.waker) }
