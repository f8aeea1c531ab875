// This file limits the sizes of schemas and of answers of a registry.

package schema

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	mostBytes   = 2 << 20 // bytes of a schema with its imports
	mostAnswer  = 4 << 20 // bytes of an answer of the registry; JSON escapes make it longer than the schema
	mostError   = 4 << 10 // bytes of an error answer
	mostImports = 500     // imports of a schema
	mostDeep    = 50      // length of a chain of references
	mostNested  = 200     // depth of nested brackets
	mostParts   = 20_000  // number of brackets, commas and semicolons
)

// LimitError reports that a schema exceeds a limit of Skald, or needs too many steps to compare.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return e.problem().Rule + ": " + e.What }

func (e *LimitError) problem() Problem {
	return Problem{Field: "all", Rule: "compatibility cannot be decided", Observed: e.What}
}

// Bounded returns a *LimitError if s and its imports exceed a limit. The limits are 2 MiB, 500 imports,
// 20,000 members or statements, and 200 levels of nested brackets.
func (s Schema) Bounded() error {
	if len(s.Imports) > mostImports {
		return &LimitError{fmt.Sprintf("the schema refers to more than %d others", mostImports)}
	}
	bytes, deepest, parts := 0, 0, 0
	for i := range len(s.Imports) + 1 {
		text := s.Text
		if i > 0 {
			text = s.Imports[i-1].Text
		}
		if bytes += len(text); bytes > mostBytes {
			return &LimitError{fmt.Sprintf("the schema and its imports have more than %d bytes", mostBytes)}
		}
		depth, n := size(text)
		deepest, parts = max(deepest, depth), parts+n
	}
	switch {
	case deepest > mostNested:
		return &LimitError{fmt.Sprintf("the schema has brackets that are nested more than %d deep",
			mostNested)}
	case parts > mostParts:
		return &LimitError{fmt.Sprintf("the schema and its imports have more than %d parts", mostParts)}
	}
	return nil
}

// size returns the greatest depth of brackets in a text, and the count of its parts. It also counts
// brackets in strings and comments, so the results may be too large, but never too small.
func size(text string) (depth, count int) {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[', '(', '<':
			open, count = open+1, count+1
			depth = max(depth, open)
		case '}', ']', ')', '>':
			open = max(open-1, 0)
		case ';', ',':
			count++
		}
	}
	return depth, count
}

// bounded returns a client with the options of c that reads at most mostAnswer bytes of an answer. Its errors
// do not contain passwords from the URLs of c.
func bounded(c *sr.Client) (server, error) {
	given, _ := c.OptValue("HTTPClient").(*http.Client)
	if given == nil {
		given = http.DefaultClient
	}
	one := *given
	limit := &limited{next: one.Transport, users: map[string]*url.Userinfo{}}
	if limit.next == nil {
		limit.next = http.DefaultTransport
	}
	one.Transport = limit
	var urls []string
	all, _ := c.OptValue("URLs").([]string)
	for _, text := range all {
		at, err := url.Parse(text)
		if err != nil {
			return server{}, errors.New("a URL of the schema registry is invalid")
		}
		limit.users[at.Host] = at.User
		at.User = nil
		urls = append(urls, at.String())
	}
	// The transport already has the TLS settings, and NewClient accepts only one of both.
	var noTLS *tls.Config
	out, err := sr.NewClient(append(c.Opts()[:len(c.Opts()):len(c.Opts())], sr.HTTPClient(&one),
		sr.URLs(urls...),
		sr.DialTLSConfig(noTLS))...)
	return server{out}, err
}

// limited is a transport that limits the bodies of answers, and sets the user of a host.
type limited struct {
	next  http.RoundTripper
	users map[string]*url.Userinfo // by host
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if user := l.users[r.URL.Host]; user != nil && r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	out, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if out.StatusCode >= http.StatusMultipleChoices {
		out.Body = &body{io.LimitReader(out.Body, mostError), out.Body}
	} else {
		out.Body = &body{&most{out.Body, mostAnswer}, out.Body}
	}
	return out, nil
}

type body struct {
	io.Reader
	io.Closer
}

// most is a reader that returns an error after left bytes.
type most struct {
	io.Reader
	left int
}

func (m *most) Read(to []byte) (int, error) {
	if m.left < 0 {
		return 0, &LimitError{fmt.Sprintf("the registry's answer has more than %d bytes", mostAnswer)}
	}
	n, err := m.Reader.Read(to[:min(len(to), m.left+1)])
	m.left -= n
	return n, err
}

// oddAnswerError is the error of an answer that is unusable, or that did not come from a registry.
type oddAnswerError struct{ err error }

func (e *oddAnswerError) Error() string { return e.err.Error() }
func (e *oddAnswerError) Unwrap() error { return e.err }

// odd wraps err in an oddAnswerError if there was an answer with unusable content.
func odd(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var limit *LimitError
	if errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &limit) || errors.Is(err,
		errNoAnswer) {
		return &oddAnswerError{err}
	}
	return err
}
