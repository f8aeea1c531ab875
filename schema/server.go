// This file has the requests to a schema registry.

package schema

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/twmb/franz-go/pkg/sr"
)

// errNoSchema is wrapped by errors about a schema that the registry does not have.
var errNoSchema = errors.New("no such schema")

// server is a schema registry with Confluent's API.
type server struct{ *sr.Client }

// answered wraps an answer with status 404 in errNoSchema, to separate it from an outage.
func answered(err error) error {
	err = odd(err)
	var response *sr.ResponseError
	if errors.As(err, &response) && response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errNoSchema, err)
	}
	return err
}

// refused returns true if the registry refused a schema as invalid or incompatible.
func refused(err error) bool {
	var response *sr.ResponseError
	return errors.As(err, &response) && (response.StatusCode == http.StatusConflict ||
		response.StatusCode == http.StatusUnprocessableEntity)
}

func (s server) byID(ctx context.Context, id ID) (Schema, error) {
	if id.GUID != [16]byte{} {
		found, err := s.SchemaByGUID(ctx, id.String())
		if err != nil {
			return Schema{}, answered(err)
		}
		return s.withImports(ctx, found.Schema)
	}
	found, err := s.SchemaByID(ctx, int(id.Number))
	if err != nil {
		return Schema{}, answered(err)
	}
	return s.withImports(ctx, found)
}

// withImports returns a schema with all schemas that it refers to.
func (s server) withImports(ctx context.Context, found sr.Schema) (Schema, error) {
	out := Schema{Format: found.Type.String(), Text: found.Schema}
	if out.Text == "" {
		return out, odd(errNoAnswer)
	}
	_, err := s.imports(ctx, &out, found.References, nil)
	return out, err
}

// errNoAnswer is the error of an answer that is no schema. It may come from a proxy or a login page.
var errNoAnswer = errors.New("the answer is not a schema: does the URL lead to the registry itself?")

// referenceError reports a reference to a schema that cannot be read.
type referenceError struct {
	of  sr.SchemaReference
	err error
}

func (e *referenceError) Error() string {
	return fmt.Sprintf("the schema refers to %s version %d: %v", e.of.Subject, e.of.Version, e.err)
}
func (e *referenceError) Unwrap() error { return e.err }

// imports adds all schemas that refs lead to to the imports of out. The argument path has the names on the
// path to refs, to detect cycles.
func (s server) imports(ctx context.Context, out *Schema, refs []sr.SchemaReference,
	path []string) (names []string, err error) {
	if len(path) > mostDeep {
		return nil, odd(&LimitError{fmt.Sprintf("the schema refers to others more than %d deep", mostDeep)})
	}
	for _, ref := range refs {
		names = append(names, ref.Name)
		if slices.ContainsFunc(out.Imports, func(i Import) bool { return i.Name == ref.Name }) {
			continue
		}
		if slices.Contains(path, ref.Name) {
			return nil, odd(&LimitError{fmt.Sprintf("the schema %.200s refers to itself", ref.Name)})
		}
		found, err := s.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err == nil && found.Schema.Schema == "" {
			err = errNoAnswer
		}
		if err != nil {
			return nil, &referenceError{ref, answered(err)}
		}
		needs, err := s.imports(ctx, out, found.References, append(slices.Clip(path), ref.Name))
		if err != nil {
			return nil, err
		}
		out.Imports = append(out.Imports, Import{Name: ref.Name, Text: found.Schema.Schema, Needs: needs})
		if err := out.Bounded(); err != nil {
			return nil, odd(err)
		}
	}
	return names, nil
}

// asServed returns the schema original in the form of the registry: its imports are references to subjects
// with their names. If register is true, asServed registers missing imports.
func (s server) asServed(ctx context.Context, original Schema, register bool) (sr.Schema, error) {
	var format sr.SchemaType
	if err := format.UnmarshalText([]byte(original.Format)); err != nil {
		return sr.Schema{}, err
	}
	versions := map[string]int{}
	refs := func(names []string) (out []sr.SchemaReference) {
		for _, n := range names {
			out = append(out, sr.SchemaReference{Name: n, Subject: n, Version: versions[n]})
		}
		return out
	}
	for _, i := range original.Imports {
		part := sr.Schema{Schema: i.Text, Type: format, References: refs(i.Needs)}
		found, err := s.LookupSchema(ctx, i.Name, part)
		if err = answered(err); errors.Is(err, errNoSchema) && register {
			found, err = s.CreateSchema(ctx, i.Name, part)
		}
		if err != nil {
			return sr.Schema{}, fmt.Errorf("import %s: %w", i.Name, err)
		}
		versions[i.Name] = found.Version
	}
	return sr.Schema{Schema: original.Text, Type: format, References: refs(original.topImports())}, nil
}

func (s server) registered(ctx context.Context, subject string, one Schema) (ID, error) {
	served, err := s.asServed(ctx, one, false)
	if err != nil {
		return ID{}, err
	}
	found, err := s.LookupSchema(ctx, subject, served)
	if err != nil {
		return ID{}, answered(err)
	}
	return idOf(found)
}

func (s server) register(ctx context.Context, subject string, one Schema) (ID, error) {
	served, err := s.asServed(ctx, one, true)
	if err != nil {
		return ID{}, err
	}
	found, err := s.CreateSchema(ctx, subject, served)
	if err != nil {
		return ID{}, answered(err)
	}
	return idOf(found)
}

func idOf(found sr.SubjectSchema) (ID, error) {
	if found.ID <= 0 || found.ID > math.MaxInt32 {
		return ID{}, &oddAnswerError{fmt.Errorf(
			"the answer has the id %d, which is not a schema id: does the URL lead to the registry itself?",
			found.ID)}
	}
	guid, _ := guidOf(found.GUID)
	return ID{Number: int32(found.ID), GUID: guid}, nil
}
