package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// SourceError reports that the database already has another source. The source is part of the identity of
// every message. After a change, duplicates would look like new messages.
type SourceError struct{ Have, Want string }

func (e *SourceError) Error() string {
	return fmt.Sprintf(
		"store: the source of this database is %q, not %q: leave --source out, or migrate another schema",
		e.Have, e.Want)
}

// setSource stores the source and makes it the default of the column source, once.
func (m *migrator) setSource(ctx context.Context, tx pgx.Tx) error {
	have, err := m.haveSource(ctx, tx)
	if err != nil {
		return err
	}
	if have != "" {
		return m.differs(have)
	}
	source := m.source
	if source == "" {
		if err := tx.QueryRow(ctx, "SELECT '/' || current_database() || '/' || $1::text",
			m.pg.Schema).Scan(&source); err != nil {
			return fmt.Errorf("default source: %w", err)
		}
	}
	if len(source) > sqlexec.MaxName || !sqlexec.Storable(source) || strings.ContainsAny(source, "\r\n") {
		return fmt.Errorf("a source is 1 to %d bytes of text", sqlexec.MaxName)
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["InsertSource"], source); err != nil {
		return fmt.Errorf("store source: %w", err)
	}
	if _, err := tx.Exec(ctx, m.sourceDefault(source)); err != nil {
		return fmt.Errorf("set source: %w", err)
	}
	return nil
}

func (m *migrator) sourceDefault(source string) string {
	return "ALTER TABLE " + m.pg.Prefix + "skald_outbox ALTER COLUMN source SET DEFAULT" +
		sqlexec.Literal(source)
}

func (m *migrator) haveSource(ctx context.Context, tx pgx.Tx) (string, error) {
	var have string
	err := tx.QueryRow(ctx, m.pg.SQL["Source"]).Scan(&have)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read source: %w", err)
	}
	return have, nil
}

// sameSource returns a *SourceError if the database has another source than the requested one.
func (m *migrator) sameSource(ctx context.Context, tx pgx.Tx) error {
	have, err := m.haveSource(ctx, tx)
	if err != nil || have == "" {
		return err
	}
	return m.differs(have)
}

func (m *migrator) differs(have string) error {
	if m.source != "" && m.source != have {
		return &SourceError{Have: have, Want: m.source}
	}
	return nil
}
