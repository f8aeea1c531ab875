package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/store/pgstore"
)

// form is the file format of a migration tool.
type form struct {
	suffix, before, after string
	then                  string // the next command for the user
}

func formOf(tool string) (form, error) {
	switch tool {
	case "golang-migrate":
		return form{suffix: ".up.sql", before: "BEGIN;\n", after: "COMMIT;\n"}, nil
	case "goose":
		return form{suffix: ".sql", before: "-- +goose Up\n-- +goose StatementBegin\n",
			after: "-- +goose StatementEnd\n"}, nil
	case "dbmate":
		return form{suffix: ".sql", before: "-- migrate:up\n", after: "\n-- migrate:down\n"}, nil
	case "atlas":
		return form{suffix: ".sql", then: "now run: atlas migrate hash"}, nil
	}
	return form{}, &cli.UsageError{What: "--format is golang-migrate, goose, atlas or dbmate"}
}

// stepper is a database that returns its migrations as separate scripts.
type stepper interface {
	Steps() ([]pgstore.Step, error)
}

// writeFiles writes a numbered file into dir for each migration that has no file yet. It does not change
// existing files, so it can run again after an upgrade. New files get numbers after all existing ones,
// because these tools apply files by number.
func writeFiles(t *cli.Output, db Database, tool, dir string) error {
	f, err := formOf(tool)
	if err != nil {
		return err
	}
	from, ok := db.(stepper)
	if !ok {
		return &cli.UsageError{What: "--format is for PostgreSQL"}
	}
	steps, err := from.Steps()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &cli.UsageError{What: "there is no folder " + dir}
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	wrote, err := writeMissing(steps, f, dir, names)
	if err == nil || len(wrote) > 0 {
		err = errors.Join(t.List("wrote", "wrote", wrote), err)
	}
	if err == nil && len(wrote) > 0 && f.then != "" {
		err = t.Say("then", f.then, f.then)
	}
	return err
}

// writeMissing writes the steps that have no file among names.
func writeMissing(steps []pgstore.Step, f form, dir string, names []string) (wrote []string, err error) {
	number := nextNumber(names, time.Now())
	for _, s := range steps {
		as := "_skald_" + s.Name + f.suffix
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, as) }) {
			continue
		}
		path := filepath.Join(dir, number()+as)
		if err := os.WriteFile(path, []byte(f.before+s.SQL+f.after), 0o644); err != nil {
			return wrote, err
		}
		wrote = append(wrote, path)
	}
	return wrote, nil
}

// nextNumber returns a function that returns the next number at each call. The numbers continue after the
// largest number in names, with the same number of digits. If names has no numbers, or if they are times,
// the numbers start at the time now.
func nextNumber(names []string, now time.Time) func() string {
	last, digits := int64(0), 0
	for _, name := range names {
		head, _, _ := strings.Cut(name, "_")
		if n, err := strconv.ParseInt(head, 10, 64); err == nil && n > last {
			last, digits = n, len(head)
		}
	}
	if clock, err := strconv.ParseInt(now.UTC().Format("20060102150405"), 10, 64); err == nil &&
		(last == 0 || digits == 14) {
		last, digits = max(last, clock-1), 14
	}
	return func() string {
		last++
		return fmt.Sprintf("%0*d", digits, last)
	}
}

// printing has the flags --print, --format and --dir.
type printing struct {
	script    bool
	tool, dir string
}

func (p printing) check() error {
	if (p.tool != "" || p.dir != "") && (!p.script || p.tool == "" || p.dir == "") {
		return &cli.UsageError{What: "--print, --format TOOL and --dir FOLDER belong together: give all three"}
	}
	return nil
}

func (p printing) print(t *cli.Output, db Database) error {
	if p.tool != "" {
		return writeFiles(t, db, p.tool, p.dir)
	}
	text, err := db.Script()
	if err == nil {
		err = t.Say("sql", text, strings.TrimSuffix(text, "\n"))
	}
	return err
}
