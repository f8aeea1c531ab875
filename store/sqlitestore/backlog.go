package sqlitestore

import (
	"context"
	"errors"
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
	if b.Kept, err = keptFor(ctx, p); err != nil {
		return store.Backlog{}, failed("read backlog", err)
	}
	b.Source = strings.ReplaceAll(strings.Trim(b.Source, "'"), "''", "'") // it is a literal
	b.Oldest, b.Retained = time.Duration(oldest)*time.Millisecond, time.Duration(retained)*time.Millisecond
	return b, nil
}

// keptFor is what is kept for each consumer.
func keptFor(ctx context.Context, p *prepared) (out []store.Kept, err error) {
	rows, err := p.stmts["KeptFor"].QueryContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k store.Kept
		var parked, apart, called int64 // milliseconds
		if err := rows.Scan(&k.Consumer, &k.Parked, &k.Dead, &k.Bytes, &parked, &k.Conflicts, &k.TooOld, &apart, &k.Calls, &called); err != nil {
			return nil, err
		}
		k.Oldest, k.Apart = time.Duration(parked)*time.Millisecond, time.Duration(apart)*time.Millisecond
		k.Called = time.Duration(called) * time.Millisecond
		out = append(out, k)
	}
	return out, rows.Err()
}
