package schema_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
)

// An answer that does not come from a registry does not allow a push.
func TestPullFromAnotherServer(t *testing.T) {
	t.Parallel()
	lock := schema.Lock{Lock: 1, Subjects: []schema.Locked{{Subject: "s",
		Text: schema.Text{Format: schema.Avro, Schema: []byte(`"int"`)}}}}
	for name, c := range map[string]struct {
		config, versions string
		status           int
		want             string // part of the error; "": the subject is new
	}{
		"a registry without the subject": {`{"compatibilityLevel":"BACKWARD"}`,
			`{"error_code":40401,"message":"no subject"}`, 404, ""},
		"no level":                {`{}`, `[]`, 200, "the answer has none"},
		"a level of another name": {`{"compatibility":"BACKWARD"}`, `[]`, 200, "the answer has none"},
		"a proxy without that page": {`{"compatibilityLevel":"BACKWARD"}`, `<html>no page</html>`,
			404, "no page"},
		"no version in a version": {`{"compatibilityLevel":"BACKWARD"}`, `[1]`, 200, "not a schema"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := odd(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/config"):
					_, _ = io.WriteString(w, c.config)
				case strings.HasSuffix(r.URL.Path, "/versions"):
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.versions)
				default:
					_, _ = io.WriteString(w, "{}")
				}
			})
			client, err := sr.NewClient(sr.URLs(o.url))
			if err != nil {
				t.Fatal(err)
			}
			versions, err := schema.Pull(t.Context(), client, lock)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			if got, err := schema.Check(lock, versions, "", avro.Format{}); err != nil ||
				got[0].State != schema.New {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// An unknown level is an error, and an empty lock is not compatible.
func TestCheckKnowsLevels(t *testing.T) {
	t.Parallel()
	lock := schema.Lock{Lock: 1, Subjects: []schema.Locked{{Subject: "s",
		Text: schema.Text{Format: schema.Avro, Schema: []byte(`"int"`)}}}}
	versions := schema.Versions{Form: 1, Subjects: []schema.SubjectHistory{{Subject: "s", Level: "SIDEWARD"}}}
	if _, err := schema.Check(lock, versions, "", avro.Format{}); err == nil ||
		!strings.Contains(err.Error(), "SIDEWARD") {
		t.Errorf("%v", err)
	}
	if _, err := schema.Check(lock, versions, schema.Full, avro.Format{}); err != nil {
		t.Errorf("with a level that is given: %v", err)
	}
	if _, err := schema.ReadLock(strings.NewReader(`{"lock":1,"subjects":[]}`)); err == nil ||
		!strings.Contains(err.Error(), "no subjects") {
		t.Errorf("%v", err)
	}
}
