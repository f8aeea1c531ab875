package sqlitestore

import (
	"context"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// Backlog reads the views of the contract.
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return store.Backlog{}, failed("read backlog", err)
	}
	var b store.Backlog
	var oldest, retained int64 // milliseconds
	err = p.stmts["Backlog"].QueryRowContext(ctx).Scan(&b.Source, &b.Pending, &oldest, &b.Aside, &retained, &b.Free)
	if err != nil {
		return store.Backlog{}, failed("read backlog", err)
	}
	b.Source = strings.ReplaceAll(strings.Trim(b.Source, "'"), "''", "'") // it is a literal
	b.Oldest, b.Retained = time.Duration(oldest)*time.Millisecond, time.Duration(retained)*time.Millisecond
	return b, nil
}
