package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// setSource makes the source the default of its column, once.
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
		if err := tx.QueryRow(ctx, "SELECT '/' || current_database() || '/' || $1::text", m.schema).Scan(&source); err != nil {
			return fmt.Errorf("default source: %w", err)
		}
	}
	if len(source) > maxName || !storable(source) || strings.ContainsAny(source, "\r\n") {
		return fmt.Errorf("a source is 1 to %d bytes of text", maxName)
	}
	if _, err := tx.Exec(ctx, m.sql["InsertSource"], source); err != nil {
		return fmt.Errorf("note source: %w", err)
	}
	if _, err := tx.Exec(ctx, m.sourceDefault(source)); err != nil {
		return fmt.Errorf("set source: %w", err)
	}
	return nil
}

func (m *migrator) sourceDefault(source string) string {
	literal := "'" + strings.ReplaceAll(source, "'", "''") + "'"
	if strings.Contains(source, `\`) {
		literal = " E'" + strings.ReplaceAll(strings.ReplaceAll(source, `\`, `\\`), "'", "''") + "'"
	}
	return "ALTER TABLE " + m.prefix + "skald_outbox ALTER COLUMN source SET DEFAULT " + literal
}

func (m *migrator) haveSource(ctx context.Context, tx pgx.Tx) (string, error) {
	var have string
	err := tx.QueryRow(ctx, m.sql["Source"]).Scan(&have)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read source: %w", err)
	}
	return have, nil
}

// sameSource checks a source that was asked for.
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
