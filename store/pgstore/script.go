package pgstore

import (
	"fmt"
	"strings"
)

// Script is the SQL of Migrate for a database that has no tables yet, to be applied by other means (psql -1 is not
// needed: it is one transaction): the schema, all files, the notes that they were applied, and the source.
func Script(o *MigrateOptions) (string, error) {
	m, err := newMigrator(o)
	if err != nil {
		return "", fmt.Errorf("script: %w", err)
	}
	return m.script(), nil
}

func (m *migrator) script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN;\nCREATE SCHEMA IF NOT EXISTS %s;\n%s\n", strings.TrimSuffix(m.prefix, "."), closed(m.sql["CreateMigrations"]))
	for _, one := range m.files {
		fmt.Fprintf(&b, "\n%s\n", closed(one.text))
		fmt.Fprintf(&b, "INSERT INTO %sskald_migration (version, name, checksum) VALUES (%d, %s, %s);\n",
			m.prefix, one.Version, literal(one.Name), literal(one.Checksum))
	}
	source := "'/' || current_database() || " + literal("/"+m.schema)
	if m.source != "" {
		source = literal(m.source)
	}
	fmt.Fprintf(&b, "\nINSERT INTO %sskald_setting (name, value) VALUES ('source', %s);\n", m.prefix, source)
	fmt.Fprintf(&b, "DO $do$ BEGIN EXECUTE format('ALTER TABLE %sskald_outbox ALTER COLUMN source SET DEFAULT %%L', (\n"+
		"\tSELECT value FROM %sskald_setting WHERE name = 'source')); END $do$;\n", strings.ReplaceAll(m.prefix, "%", "%%"), m.prefix)
	return b.String() + "COMMIT;\n"
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// closed is text with a semicolon behind its last statement.
func closed(text string) string { return strings.TrimRight(text, "; \n\t") + ";" }
