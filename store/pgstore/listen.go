package pgstore

import "github.com/skald-go/skald/store/pgstore/internal/sqlexec"

// Listener wakes the relays of this process when another process has written, or is about to commit. It has
// one connection of its own. This must reach the server directly, because a pooler in transaction mode does
// not support LISTEN. Writers in Go need Options.Notify; others run SELECT pg_notify('skald_outbox',
// '<schema>') after their COMMIT. Relays also poll, so they find rows that are written while the connection
// is lost.
type Listener = sqlexec.Listener

// Listen returns a Listener at url for several schemas of one database. It wakes the relays of stores.
func Listen(url string, stores ...*Store) (*Listener, error) {
	all := make([]*sqlexec.Waker, len(stores))
	for i, s := range stores {
		all[i] = s.waker
	}
	return sqlexec.Listen(url, all...)
}

// Listen returns a Listener at url that wakes the relays of s.
func (s *Store) Listen(url string) (*Listener, error) { return sqlexec.Listen(url, s.waker) }

// Listen returns a Listener at url that wakes the relays of s.
func (s *SQLStore) Listen(url string) (*Listener, error) { return sqlexec.Listen(url, s.waker) }
