package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"
)

// Versions has all versions of subjects in a registry. Stored in a file, it allows Check to run without the
// registry.
type Versions struct {
	Form     int              `json:"versions"` // the version of the file format
	Subjects []SubjectHistory `json:"subjects"`
}

// SubjectHistory has the versions of one subject.
type SubjectHistory struct {
	Subject string `json:"subject"`
	// Level is the level of compatibility: BACKWARD, FORWARD, FULL or NONE, without the suffix TRANSITIVE.
	Level    string    `json:"level"`
	Versions []Version `json:"versions"`
}

// Version is one version of a subject.
type Version struct {
	Version int    `json:"version"`
	ID      int    `json:"id"`
	GUID    string `json:"guid,omitempty"`
	Text
}

const versionsForm = 1

// Pull reads all versions of the subjects of a lock from a registry.
func Pull(ctx context.Context, client *sr.Client, lock Lock) (Versions, error) {
	out := Versions{Form: versionsForm}
	s, err := bounded(client)
	if err != nil {
		return out, err
	}
	for _, l := range lock.Subjects {
		one, err := s.history(ctx, l.Subject)
		if err != nil {
			return out, fmt.Errorf("subject %s: %w", l.Subject, err)
		}
		out.Subjects = append(out.Subjects, one)
	}
	return out, nil
}

func (s server) history(ctx context.Context, subject string) (SubjectHistory, error) {
	out := SubjectHistory{Subject: subject, Versions: []Version{}}
	level, err := s.level(ctx, subject)
	if err != nil {
		return out, err
	}
	out.Level = level
	numbers, err := s.SubjectVersions(ctx, subject)
	if noSubject(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	for _, n := range numbers {
		found, err := s.SchemaByVersion(ctx, subject, n)
		if err == nil && found.Version != n {
			err = errNoAnswer
		}
		if err != nil {
			return out, fmt.Errorf("version %d: %w", n, err)
		}
		whole, err := s.withImports(ctx, found.Schema)
		if err != nil {
			return out, fmt.Errorf("version %d: %w", n, err)
		}
		out.Versions = append(out.Versions,
			Version{Version: n, ID: found.ID, GUID: found.GUID, Text: textOf(whole)})
	}
	return out, nil
}

// noSubject returns true if the registry does not have the subject. A 404 of a proxy has another error code.
func noSubject(err error) bool {
	const code = 40401
	var response *sr.ResponseError
	return errors.As(err, &response) && response.ErrorCode == code
}

// level returns the level of the subject, or else the global level of the registry.
func (s server) level(ctx context.Context, subject string) (string, error) {
	var found sr.CompatibilityResult
	for _, of := range []string{subject, sr.GlobalSubject} {
		found = s.Compatibility(sr.WithParams(ctx, sr.DefaultToGlobal), of)[0]
		if found.Err == nil && found.Level.String() == "" {
			return "",
				errors.New("its level of compatibility: the answer has none: does the URL lead to the registry itself?")
		}
		if found.Err == nil {
			return strings.TrimSuffix(found.Level.String(), "_TRANSITIVE"), nil
		}
		if !errors.Is(answered(found.Err), errNoSchema) {
			break
		}
	}
	return "", fmt.Errorf("its level of compatibility: %w", found.Err)
}

// Write writes v to a file that ReadVersions can read.
func (v Versions) Write(w io.Writer) error { return writeJSON(w, v) }

// ReadVersions reads a file of Versions.Write.
func ReadVersions(r io.Reader) (Versions, error) {
	var out Versions
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return out, fmt.Errorf("read versions: %w: was it written by skald schema pull?", err)
	}
	if out.Form != versionsForm {
		return out, fmt.Errorf("read versions: their format is %d, this build reads %d: pull them again",
			out.Form, versionsForm)
	}
	return out, nil
}

// Push registers the schemas of a lock, imports first. It does not register a schema that is registered
// already. It calls onPush after each subject. Call Check before Push, because a registry may accept
// schemas that readers cannot read.
func Push(ctx context.Context, client *sr.Client, lock Lock, onPush func(subject string, id ID)) error {
	to, err := bounded(client)
	if err != nil {
		return err
	}
	for _, l := range lock.Subjects {
		s, err := l.Whole()
		if err != nil {
			return fmt.Errorf("subject %s: %w", l.Subject, err)
		}
		id, err := to.register(ctx, l.Subject, s)
		if refused(err) {
			err = &RefusedError{Subject: l.Subject, Err: err}
		}
		if err != nil {
			return fmt.Errorf("subject %s: %w", l.Subject, err)
		}
		onPush(l.Subject, id)
	}
	return nil
}

// RefusedError reports that the registry refused a schema.
type RefusedError struct {
	Subject string
	Err     error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("the registry refuses it: %v", e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }
