package table

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Statements reads the .sql files in the folder sql/query of files, which a service embeds. Each statement
// begins with a line "-- name: X" and ends before the next.
func Statements(files fs.FS) (map[string]string, error) {
	names, err := fs.Glob(files, "sql/query/*.sql")
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read statements: %w", err)
		}
		if err := cut(out, string(text)); err != nil {
			return nil, fmt.Errorf("read statements of %s: %w", path.Base(name), err)
		}
	}
	return out, nil
}

func cut(out map[string]string, text string) error {
	for i, part := range strings.Split("\n"+text, "\n-- name:") {
		name, body, _ := strings.Cut(part, "\n")
		name, body = strings.TrimSpace(name), strings.TrimSpace(body)
		switch {
		case i == 0 && strings.TrimSpace(part) == "":
		case name == "" || body == "" || out[name] != "":
			return fmt.Errorf("%q has no name, no text, or the name of another", name)
		default:
			out[name] = body
		}
	}
	return nil
}
