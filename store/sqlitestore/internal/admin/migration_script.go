package admin

import (
	"fmt"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
)

// Script returns the SQL of Apply for a file without tables, for another migration tool. The SQL has all
// migrations in one transaction, and records that they were applied. An empty source means the default for a
// file at path.
func (t Tables) Script(path, source string) (string, error) {
	text, err := setup()
	if err != nil {
		return "", fmt.Errorf("script: %w", err)
	}
	files, err := sqlfile.Migrations(t.Files, ".")
	if err != nil {
		return "", fmt.Errorf("script: %w", err)
	}
	m := &migrator{text: text, files: files, file: path, source: source}
	return m.script(), nil
}

func (m *migrator) script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN IMMEDIATE;\n%s\n", closed(m.text["CreateMigrations"]))
	for _, one := range m.files {
		fmt.Fprintf(&b, "\n%s\n", closed(strings.ReplaceAll(one.Text, "/*source*/''", quote(m.wanted()))))
		fmt.Fprintf(&b,
			"INSERT INTO skald_migration (version, name, checksum, builds) VALUES (%d, %s, %s, %d);\n",
			one.Version, quote(one.Name), quote(one.Checksum), one.Builds)
	}
	return b.String() + "COMMIT;\n"
}

// closed returns text with a semicolon after its last statement.
func closed(text string) string { return strings.TrimRight(text, "; \n\t") + ";" }
