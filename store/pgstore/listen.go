package pgstore

import "github.com/skald-go/skald/store/pgstore/internal/sqlexec"

// Listener wakes the relays of this process when another process has written, or is about to commit.
//
// A Listener has one connection of its own. This connection must reach the server directly, because a pooler
// in transaction mode does not support LISTEN. Writers in Go need Options.Notify. Other writers run SELECT
// pg_notify('skald_outbox', '<schema>') after their COMMIT. While the connection is lost, relays find new
// rows by polling.
type Listener = sqlexec.Listener

// Listen returns a Listener at url that wakes the relays of stores. The stores may use different schemas of
// one database.
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
