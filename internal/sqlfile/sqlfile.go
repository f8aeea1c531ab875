// Package sqlfile reads SQL statements and migrations from .sql files. Each statement has a name:
//
//	-- name: InsertMark
//	-- a comment about the statement
//	INSERT INTO /*schema*/skald_mark …;
//
// A statement ends before the next name. Load replaces /*schema*/ by the quoted schema and a dot. /*schema*/
// is a comment, so that the statements also run in psql.
package sqlfile

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Load reads the statements of all .sql files in the folder dir of files, by name. It replaces /*schema*/ by
// prefix.
func Load(files fs.FS, dir, prefix string) (map[string]string, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || path.Ext(e.Name()) != ".sql" {
			continue
		}
		text, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read statements: %w", err)
		}
		if err := parse(out, e.Name(), string(text), prefix); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parse(out map[string]string, file, text, prefix string) error {
	name, body := "", []string(nil)
	flush := func() error {
		stmt := strings.TrimSuffix(strings.TrimSpace(strings.Join(body, "\n")), ";")
		body = nil
		switch {
		case name == "" && stmt != "":
			return fmt.Errorf("%s: a statement has no name: write a line \"-- name: NAME\" before it", file)
		case name == "":
			return nil
		case stmt == "":
			return fmt.Errorf("%s: %s is empty", file, name)
		case out[name] != "":
			return fmt.Errorf("%s: two statements have the name %s", file, name)
		}
		out[name] = strings.ReplaceAll(stmt, "/*schema*/", prefix)
		return nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if rest, ok := strings.CutPrefix(line, "-- name:"); ok {
			if err := flush(); err != nil {
				return err
			}
			name = strings.TrimSpace(rest)
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		body = append(body, line)
	}
	return flush()
}
