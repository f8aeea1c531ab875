package admin

import (
	"fmt"
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Step is one migration as SQL for another migration tool. The SQL also records that the migration was
// applied. Run it as one transaction.
type Step struct {
	Version int
	Name    string // of the migration, without .sql
	SQL     string
}

// Steps returns the SQL of Migrate for an empty schema, one Step for each migration, in order. The encoding
// of the database must be UTF8.
func Steps(o Options) ([]Step, error) {
	m, err := newMigrator(o)
	if err != nil {
		return nil, fmt.Errorf("migration script: %w", err)
	}
	if strings.Contains(m.source, `\`) || !sqlexec.Storable(m.source) {
		return nil, fmt.Errorf("migration script: the source %q has a backslash or is not UTF-8 text", m.source)
	}
	var out []Step
	for i, one := range m.files {
		text := one.text
		if i == 0 {
			text = m.opening() + "\n" + text + "\n" + m.naming()
		} else {
			text = "SET LOCAL lock_timeout = '200ms'; -- nobody is to wait behind it for longer: run it again\n\n" + text
		}
		text += fmt.Sprintf("\nINSERT INTO %sskald_migration (version, name, checksum, builds) VALUES (%d, '%s', '%s', %d);\n",
			m.pg.Prefix, one.Version, one.Name, one.Checksum, one.builds)
		out = append(out, Step{Version: one.Version, Name: strings.TrimSuffix(one.Name, ".sql"), SQL: text})
	}
	return out, nil
}

// opening returns the SQL that creates the schema and the table of applied migrations.
func (m *migrator) opening() string {
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s;\n%s;\n", strings.TrimSuffix(m.pg.Prefix, "."),
		m.pg.SQL["CreateMigrations"])
}

// naming returns the SQL that sets the source of the database.
func (m *migrator) naming() string {
	source := sqlexec.Quote(m.source)
	if m.source == "" {
		source = "'/' || current_database() || " + sqlexec.Quote("/"+m.pg.Schema)
	}
	return fmt.Sprintf("INSERT INTO %sskald_setting (name, value) VALUES ('source', %s);\n",
		m.pg.Prefix, source) +
		fmt.Sprintf("DO $source$ BEGIN EXECUTE format('ALTER TABLE %%s ALTER COLUMN source SET DEFAULT %%L', %s, (SELECT value FROM %sskald_setting WHERE name = 'source')); END $source$;\n",
			sqlexec.Quote(m.pg.Prefix+"skald_outbox"), m.pg.Prefix)
}
