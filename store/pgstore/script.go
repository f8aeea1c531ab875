package pgstore

import (
	"fmt"
	"strings"
)

// Script is what Migrate would do to an empty schema, as SQL for a tool of your own: run it as one transaction, in
// a database whose encoding is UTF8.
func Script(o *MigrateOptions) (string, error) {
	m, err := newMigrator(o)
	if err != nil {
		return "", fmt.Errorf("migration script: %w", err)
	}
	if strings.Contains(m.source, `\`) || !storable(m.source) {
		return "", fmt.Errorf("migration script: the source %q has a backslash or is no text", m.source)
	}
	return m.script(), nil
}

func (m *migrator) script() string {
	var b strings.Builder
	schema := strings.TrimSuffix(m.prefix, ".")
	fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n%s;\n", schema, m.sql["CreateMigrations"])
	for _, one := range m.files {
		fmt.Fprintf(&b, "\n-- %s\n%s\nINSERT INTO %sskald_migration (version, name, checksum, builds) VALUES (%d, '%s', '%s', %d);\n",
			one.Name, one.text, m.prefix, one.Version, one.Name, one.Checksum, one.builds)
	}
	source := quote(m.source)
	if m.source == "" {
		source = "'/' || current_database() || " + quote("/"+m.schema)
	}
	fmt.Fprintf(&b, "\nINSERT INTO %sskald_setting (name, value) VALUES ('source', %s);\n", m.prefix, source)
	fmt.Fprintf(&b, "DO $source$ BEGIN EXECUTE format('ALTER TABLE %%s ALTER COLUMN source SET DEFAULT %%L', %s, (SELECT value FROM %sskald_setting WHERE name = 'source')); END $source$;\n",
		quote(m.prefix+"skald_outbox"), m.prefix)
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
