// This file is what `skald init` writes: a service that compiles, with one table, one endpoint, one
// handler and a test; or one with a saga.

package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
)

//go:embed template/*.tmpl template/saga/*.tmpl
var templates embed.FS

// A Service is what the templates are filled with.
type Service struct {
	Module string // its path
	Name   string // the last part of it: the consumer group, too
	Go     string // the version of the language
	Skald  string // the version that is required
	Pgx    string // the same; "": go mod tidy finds one
	Saga   bool   // it runs a saga, and no messages
}

// Unreleased is the version of a build that has none: it must be replaced by a folder.
const Unreleased = "v0.0.0"

const root = "github.com/skald-go/skald"

// Of is a service of that module path, which requires what this build was made of.
func Of(module string) Service {
	s := Service{Module: module, Name: module[strings.LastIndex(module, "/")+1:], Go: "1.26.0",
		Skald: Unreleased}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	if v, _, _ := strings.Cut(info.Main.Version, "+"); info.Main.Path == root && strings.HasPrefix(v, "v") {
		s.Skald = v
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/jackc/pgx/v5" && strings.HasPrefix(d.Version, "v") {
			s.Pgx = d.Version
		}
	}
	return s
}

// A NotEmptyError says that there is something where a service was to be written.
type NotEmptyError struct{ Dir string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("there is something at %s already: give a folder that is new or empty", e.Dir)
}

// Write writes the service into dir, which it makes if it is not there, and returns the names of its files.
func (s Service) Write(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	case errors.Is(err, syscall.ENOTDIR): // a file
		return nil, &NotEmptyError{dir}
	case err != nil:
		return nil, err
	case len(entries) > 0:
		return nil, &NotEmptyError{dir}
	}
	all, err := s.templates()
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		text, err := templates.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".tmpl")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s.fill(string(text))), 0o644); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (s Service) templates() ([]string, error) {
	if !s.Saga {
		return fs.Glob(templates, "template/*.tmpl")
	}
	all, err := fs.Glob(templates, "template/saga/*.tmpl")
	return append(all, "template/go.mod.tmpl"), err
}

// fill replaces what stands in double braces. Package text/template would keep every exported method of the
// program in the binary, which is 20 % of it.
func (s Service) fill(text string) string {
	requires := root + " " + s.Skald
	if s.Pgx != "" {
		requires = "github.com/jackc/pgx/v5 " + s.Pgx + "\n\t" + requires
	}
	return strings.NewReplacer("{{module}}", s.Module, "{{name}}", s.Name, "{{go}}", s.Go, "{{requires}}",
		requires).Replace(text)
}
