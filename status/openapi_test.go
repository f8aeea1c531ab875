package status_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/status"
)

type schemaOf struct {
	Ref        string              `json:"$ref"`
	Type       string              `json:"type"`
	Enum       []string            `json:"enum"`
	Required   []string            `json:"required"`
	Properties map[string]schemaOf `json:"properties"`
	Items      *schemaOf           `json:"items"`
}

// TestOpenAPI checks that openapi.json has exactly the field names of the answers.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths      map[string]map[string]struct{ Responses map[string]any }
		Components struct{ Schemas map[string]schemaOf }
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"Answer": status.Answer{}, "Saga": status.Saga{},
		"Step": operate.StepProgress{}, "Failure": operate.StepFailure{}, "Identity": flow.ID{},
		"Wait": operate.Wait{}, "Retrying": operate.Retrying{}, "Asked": operate.RequestedUndo{},
		"Silent": status.Silent{}, "Held": status.Held{}} {
		s := api.Components.Schemas[name]
		names, always := fields(reflect.TypeOf(v))
		var said []string
		for p := range s.Properties {
			said = append(said, p)
		}
		slices.Sort(said)
		slices.Sort(s.Required)
		if !slices.Equal(said, names) || !slices.Equal(s.Required, always) {
			t.Errorf("%s: properties %v, required %v; the type has %v, always %v", name, said, s.Required,
				names, always)
		}
	}
	held := api.Components.Schemas["Held"].Properties
	want := reflect.TypeFor[operate.BlockingMessage]().NumField() + 1
	if len(held) != want {
		t.Errorf("Held has %d properties, want %d", len(held), want)
	}
	if states := api.Components.Schemas["Saga"].Properties["state"].Enum; !slices.Equal(states,
		[]string{flow.Running, flow.Compensating, flow.Done, flow.Compensated}) {
		t.Errorf("states %v", states)
	}

	// An answer of the handler has the declared fields.
	db := tracked(t)
	keep(t, db, "m-7", "o-1", nil, false)
	h := handler(t, db, status.Options{Services: map[string]string{"away": "http://127.0.0.1:1/"}})
	code, body := get(t, h, "/o-1")
	var v any
	if err := json.Unmarshal([]byte(body), &v); code != http.StatusOK || err != nil {
		t.Fatal(code, body, err)
	}
	for _, wrong := range against(api.Components.Schemas, schemaOf{Ref: "#/components/schemas/Answer"},
		v, "answer") {
		t.Error(wrong)
	}
}

// fields returns the names of a type's fields in JSON, and those of the fields that are always present.
func fields(of reflect.Type) (names, always []string) {
	for f := range of.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct &&
			f.Type != reflect.TypeFor[time.Time]():
			n, a := fields(f.Type)
			names, always = append(names, n...), append(always, a...)
		default:
			if names = append(names, name); rest != "omitempty" {
				always = append(always, name)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(always)
	return names, always
}

// against returns the differences between v and a schema.
func against(all map[string]schemaOf, s schemaOf, v any, at string) (wrong []string) {
	if name, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is {
		s = all[name]
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, there := v[name]; !there {
				wrong = append(wrong, at+" lacks "+name)
			}
		}
		for name, one := range v {
			p, known := s.Properties[name]
			if !known {
				wrong = append(wrong, at+" has "+name)
				continue
			}
			wrong = append(wrong, against(all, p, one, at+"."+name)...)
		}
	case []any:
		if s.Items == nil {
			return []string{at + " is a list"}
		}
		for _, one := range v {
			wrong = append(wrong, against(all, *s.Items, one, at+"[]")...)
		}
	case string:
		if s.Type != "string" && len(s.Enum) == 0 || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			wrong = append(wrong, at+" is the text "+v)
		}
	}
	return wrong
}
