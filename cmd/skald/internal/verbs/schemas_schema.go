// This file has the command skald schema.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/schema"
)

const (
	schemasAbout = `Compares the schemas of a program with a schema registry (Confluent's API), and registers them.

The program prints its schemas: schema.WriteLock(os.Stdout, OrderPlaced, Paid) > schemas.json.
The URL of the registry may have a user and a password: use SKALD_REGISTRY or --registry @FILE.`
	checkSchemasAbout = `Compares each schema of the program with all versions of its subject. Without --registry it compares
with the file of skald schema pull. The exit code is 8 if an old and a new program cannot read each
other's messages.`
	pushAbout = `Runs skald schema check, then registers the schemas. Run it before the rollout of the program.`
	pullAbout = `Writes the versions of the registry to a file next to the lock: schemas.registry.json for schemas.json.
skald schema check reads it without a registry.`
)

// schemasFlags has the flags of the subcommands of skald schema.
type schemasFlags struct {
	t           *cli.Output
	lock, level string
	registry    string
}

// SchemasCommand returns skald schema.
func SchemasCommand(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "schema", Short: "Compare schemas with a registry and register them",
		Long: schemasAbout}
	c.AddCommand(
		verb(out, "check", "Check that old and new programs can read each other", checkSchemasAbout, true,
			check),
		verb(out, "push", "Check schemas, then register them", pushAbout, true, push),
		verb(out, "pull", "Save the versions of the registry next to the lock", pullAbout, false, pull))
	return c
}

func verb(out io.Writer, name, short, long string, level bool,
	do func(ctx context.Context, f schemasFlags) error) *cobra.Command {
	s := schemasFlags{t: &cli.Output{Out: out}}
	c := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, Long: long}
	f := c.Flags()
	f.StringVar(&s.lock, "lock", "", "`FILE` of schema.WriteLock")
	f.String("registry", "", "`URL` of the schema registry (default: SKALD_REGISTRY)")
	if level {
		f.StringVar(&s.level, "level", "",
			"compatibility `LEVEL` instead of the registry's: backward, forward, full or none")
	}
	s.t.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s.registry, s.level = connect.From(c, "registry", "SKALD_REGISTRY"), strings.ToUpper(s.level)
		switch {
		case s.lock == "":
			return &cli.UsageError{What: "which schemas? Give --lock FILE, which schema.WriteLock wrote"}
		case s.level != "" && !slices.Contains([]string{schema.Backward, schema.Forward, schema.Full,
			schema.None}, s.level):
			return &cli.UsageError{What: "--level is backward, forward, full or none"}
		}
		return s.t.End(do(c.Context(), s))
	}
	return c
}

// client returns a client for --registry.
func (s schemasFlags) client() (*sr.Client, error) {
	if err := endpoint.CheckFront(s.registry); err != nil {
		return nil, &cli.UsageError{What: "--registry: " + err.Error()}
	}
	at, err := url.Parse(s.registry)
	if err != nil || at.Host == "" {
		return nil,
			&cli.UsageError{What: "which registry? Give --registry http://HOST:PORT, or set SKALD_REGISTRY"}
	}
	var auth []sr.ClientOpt
	if at.User != nil {
		password, _ := at.User.Password()
		auth = append(auth, sr.BasicAuth(at.User.Username(), password))
		at.User = nil
	}
	return sr.NewClient(append(auth, sr.URLs(strings.TrimSuffix(at.String(), "/")))...)
}

// asking returns a context that limits the requests of a command to a registry.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*time.Minute)
}

// pulled returns the path of the file that skald schema pull writes.
func (s schemasFlags) pulled() string {
	return strings.TrimSuffix(s.lock, filepath.Ext(s.lock)) + ".registry.json"
}

// versions reads the versions of the schemas from the registry, or without --registry from the pulled file.
func (s schemasFlags) versions(ctx context.Context, lock schema.Lock) (schema.Versions, error) {
	if s.registry != "" {
		client, err := s.client()
		if err != nil {
			return schema.Versions{}, err
		}
		ctx, cancel := asking(ctx)
		defer cancel()
		return schema.Pull(ctx, client, lock)
	}
	file, err := os.Open(s.pulled())
	if errors.Is(err, fs.ErrNotExist) {
		return schema.Versions{},
			&cli.UsageError{What: fmt.Sprintf(
				"no versions to compare with: give --registry URL, or run skald schema pull first: there is no %s",
				s.pulled())}
	}
	if err != nil {
		return schema.Versions{}, err
	}
	defer file.Close()
	return schema.ReadVersions(file)
}

func check(ctx context.Context, s schemasFlags) error {
	lock, err := readLock(s.lock)
	if err != nil {
		return err
	}
	return s.check(ctx, lock)
}

func (s schemasFlags) check(ctx context.Context, lock schema.Lock) error {
	versions, err := s.versions(ctx, lock)
	if err != nil {
		return err
	}
	verdicts, err := schema.Check(lock, versions, s.level, formats()...)
	if err != nil {
		return &cli.FailedError{Err: err}
	}
	bad := 0
	var lines []string
	for _, v := range verdicts {
		lines = append(lines, verdictLines(v)...)
		if v.State == schema.Incompatible {
			bad++
		}
	}
	if err := s.t.Say("subjects", verdicts, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if bad > 0 {
		return &cli.FailedError{Err: fmt.Errorf(
			"%d of %d schemas break existing programs: docs/schemas.md lists compatible changes",
			bad, len(verdicts))}
	}
	return nil
}

func verdictLines(v schema.Verdict) []string {
	head := fmt.Sprintf("%s: %s", v.Subject, v.State)
	switch v.State {
	case schema.Registered:
		head += fmt.Sprintf(" as version %d", v.Version)
	case schema.Unchecked:
		head += ": its level is NONE: give --level"
	case schema.Compatible, schema.Incompatible:
		head += fmt.Sprintf(" (%s, %d versions)", v.Level, v.Against)
	}
	lines := []string{head}
	for _, b := range v.Breaks {
		lines = append(lines, fmt.Sprintf("  version %d, read by %s: %v", b.Version, b.Reader, b.Problem))
	}
	return lines
}

func push(ctx context.Context, s schemasFlags) error {
	lock, err := readLock(s.lock)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := s.check(ctx, lock); err != nil {
		return err
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	ids := map[string]string{}
	var told error
	err = schema.Push(ctx, client, lock, func(subject string, id schema.ID) {
		ids[subject] = id.String()
		told = errors.Join(told, s.t.Say("pushed", ids, fmt.Sprintf("%s: pushed, id %v", subject, id)))
	})
	var refused *schema.RefusedError
	if errors.As(err, &refused) {
		return &cli.FailedError{Err: err}
	}
	return errors.Join(err, told)
}

func pull(ctx context.Context, s schemasFlags) error {
	lock, err := readLock(s.lock)
	if err != nil {
		return err
	}
	if s.registry == "" {
		return &cli.UsageError{What: "which registry? Give --registry http://HOST:PORT, or set SKALD_REGISTRY"}
	}
	versions, err := s.versions(ctx, lock)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := versions.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(s.pulled(), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return s.t.Say("file", s.pulled(), fmt.Sprintf("wrote %s: %d subjects", s.pulled(),
		len(versions.Subjects)))
}
