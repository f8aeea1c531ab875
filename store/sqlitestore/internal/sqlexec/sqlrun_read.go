package sqlexec

import (
	"context"
	"database/sql"
	"errors"
)

// Query runs a statement outside of any transaction. It reads committed rows and does not wait.
func (d *DB) Query(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	p, err := d.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	return p.Rows(ctx, name, args...)
}

// Collect reads all rows and closes them.
func Collect[T any](rows *sql.Rows, read func(scan func(...any) error) (T, error)) (out []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
