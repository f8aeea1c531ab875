package saga_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/saga"
)

// facts returns the facts of a step in a saga that has done steps with these outputs.
func facts(d saga.Defined, step string, in any, outputs map[string]any) *engine.Facts {
	_, data, err := d.Body().Encode(in)
	if err != nil {
		panic(err)
	}
	s := plan.State{ID: "id"}
	for name, out := range outputs {
		name, occurrence, _ := strings.Cut(name, "/")
		data, _ := json.Marshal(out)
		s.Runs = append(s.Runs, plan.Run{Step: name, Occurrence: occurrence, Phase: plan.IsDone,
			Output: data})
	}
	return &engine.Facts{Definition: d.Body(), Key: "o-1", Input: data, State: &s,
		Step: step, Attempt: 1}
}

// TestReading: a step reads typed outputs of earlier steps. A read that is not allowed fails the step
// permanently, regardless of its result.
func TestReading(t *testing.T) {
	var read func(r saga.Run[order]) string
	none := func(context.Context, tx, saga.Run[order]) (string, error) { return "", nil }
	a := saga.Do("a", none, nil, saga.NoEffect())
	b := saga.Do("b", none, nil, saga.NoEffect(), saga.When(func(saga.Run[order]) bool { return true }))
	lines := saga.Do("lines", none, nil, saga.NoEffect(),
		saga.Each(func(r saga.Run[order]) []string { return r.In.Lines }))
	beside := saga.Do("beside", none, nil, saga.NoEffect(), saga.AtStart())
	last := saga.Do("last",
		func(_ context.Context, _ tx, r saga.Run[order]) (string, error) { return read(r), nil }, nil,
		saga.NoEffect(), saga.After(lines))
	d := saga.New("reading", &saga.Options[order]{Key: orderID}, a, b, lines, beside, last)
	if err := d.Faults(); err != nil {
		t.Fatal(err)
	}
	other := saga.Do("a", none, nil, saga.NoEffect())
	for name, c := range map[string]struct {
		read func(r saga.Run[order]) string
		want string
		err  string
	}{
		"of": {read: func(r saga.Run[order]) string { return a.Output(r) }, want: "A"},
		"the input": {read: func(r saga.Run[order]) string { return r.In.ID + r.Key },
			want: "o-1o-1"},
		"get": {read: func(r saga.Run[order]) string {
			v, ok := b.OutputIfRun(r)
			return fmt.Sprint(v, ok)
		}, want: "false"},
		"all": {read: func(r saga.Run[order]) string {
			return fmt.Sprint(lines.Outputs(r))
		}, want: "map[rice:R tea:T]"},
		"of one that may be skipped": {read: func(r saga.Run[order]) string { return b.Output(r) },
			err: "may have been skipped: read it with OutputIfRun"},
		"of one beside": {read: func(r saga.Run[order]) string { return beside.Output(r) },
			err: "does not come before it"},
		"of another saga's": {read: func(r saga.Run[order]) string { return other.Output(r) },
			err: "does not belong to the saga reading"},
		"of one with occurrences": {read: func(r saga.Run[order]) string { return lines.Output(r) },
			err: "has other occurrences (see Outputs)"},
		"of itself, which is not yet": {read: func(r saga.Run[order]) string {
			v, _ := last.OutputIfRun(r)
			return v
		}, err: "does not come before it"},
	} {
		t.Run(name, func(t *testing.T) {
			read = c.read
			step, _ := d.Body().Step("last")
			f := facts(d, "last", order{ID: "o-1"},
				map[string]any{"a": "A", "lines/tea": "T", "lines/rice": "R"})
			out, err := step.Tx.(*engine.Local[tx]).Do(t.Context(), nil, f)
			if never := (*skald.PermanentError)(nil); c.err != "" &&
				(!errors.As(err, &never) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %s %v, want %s", out, err, c.err)
			}
			if c.err == "" && (err != nil || strings.TrimSpace(string(out)) != fmt.Sprintf("%q", c.want) &&
				!strings.Contains(string(out), c.want)) {
				t.Errorf("got %s %v, want %s", out, err, c.want)
			}
		})
	}
}

// TestSizes: data that is too large is refused when it is written, with both numbers in the error.
func TestSizes(t *testing.T) {
	big := saga.Do("big",
		func(context.Context, tx, saga.Run[order]) (string, error) { return strings.Repeat("x", 2000), nil },
		nil, saga.NoEffect())
	d := saga.New("big", &saga.Options[order]{Key: orderID, MaxBytes: 1000}, big)
	step, _ := d.Body().Step("big")
	_, err := step.Tx.(*engine.Local[tx]).Do(t.Context(), nil, facts(d, "big", order{ID: "1"}, nil))
	if err == nil || !strings.Contains(err.Error(), "2002 bytes") ||
		!strings.Contains(err.Error(), "at most 1000") {
		t.Error(err)
	}
	if _, _, err := d.Body().Encode(order{ID: "1", Lines: []string{strings.Repeat("x", 1000)}}); err == nil ||
		!strings.Contains(err.Error(), "at most 1000") {
		t.Error(err)
	}
	for _, id := range []string{"", strings.Repeat("x", 256), "a\x00b"} {
		if _, _, err := d.Body().Encode(order{ID: id}); err == nil ||
			!strings.Contains(err.Error(), "the key") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestCallKeys: the key of a call is the same for each attempt. The undo has another key, and can get the
// first one.
func TestCallKeys(t *testing.T) {
	var keys []string
	undo := refund()
	undo.Intent = func(_ context.Context, _ tx, r saga.Run[order], out receipt) (string, error) {
		return out.Number + " " + r.ForwardKey(), nil
	}
	charge := saga.CallWith("charge", bill(), undo)
	d := saga.New("paying", &saga.Options[order]{Key: orderID}, charge)
	if err := d.Faults(); err != nil {
		t.Fatal(err)
	}
	step, _ := d.Body().Step("charge")
	outside := step.Tx.(*engine.Outside[tx])
	by := call.By{Name: "paying", Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, undoing := range []bool{false, false, true} {
		f := facts(d, "charge", order{ID: "1", Cents: 7}, map[string]any{"charge": receipt{"n-1"}})
		f.Undo = undoing
		r := outside.Call
		if undoing {
			r = *outside.Undo
		}
		c, err := r.Bind(by).Intend(engine.WithFacts(t.Context(), f), nil, skald.Message{})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, c.Key+"="+c.Request)
	}
	first, _, _ := strings.Cut(keys[0], "=")
	if keys[0] != keys[1] || !strings.HasSuffix(keys[0], "=7") || strings.HasPrefix(keys[2], first) ||
		!strings.HasSuffix(keys[2], `="n-1 `+first+`"`) {
		t.Error(keys)
	}
	out, refused, why, err := outside.Call.Read(`{"Value":{"Number":"x"},"Refused":false}`)
	if string(out) != `{"Number":"x"}` || refused || why != "" || err != nil {
		t.Error(string(out), refused, why, err)
	}
}

// TestCompareDefinitions: definitions with the same hash can run each other's sagas. Changes are reported,
// and can be mapped.
func TestCompareDefinitions(t *testing.T) {
	held := saga.Do("hold", reserve, release)
	older := saga.New("order", &saga.Options[order]{Key: orderID}, held, saga.Do("pay", reserve, release))
	same := saga.New("order", &saga.Options[order]{Key: orderID, Deadline: time.Hour}, held,
		saga.Do("pay", reserve, release, saga.Timeout(time.Second)))
	renamed, look, pay := saga.Do("reserve", reserve, release), saga.Do("look", reserve, release),
		saga.Do("pay", reserve, release)
	mapped := []saga.Mapping{{From: older.Hash(), Rename: map[string]string{"hold": "reserve"},
		Skip: []string{"look"}}}
	newer := saga.New("order", &saga.Options[order]{Key: orderID, Mappings: mapped}, renamed, look, pay)
	if older.Hash() != same.Hash() || older.Hash() == newer.Hash() {
		t.Error(older.Hash(), same.Hash(), newer.Hash())
	}
	if err := newer.Faults(); err != nil {
		t.Fatal(err)
	}
	got := saga.Compare(older, newer)
	if len(got) != 1 || got[0].Class != saga.Compatible || got[0].Begun != "pay" || got[0].Step != "look" {
		t.Error(got)
	}
	var b bytes.Buffer
	if err := saga.Write(&b, older, newer); err != nil {
		t.Fatal(err)
	}
	f, err := plan.Read(&b)
	if err != nil || len(f.Definitions) != 2 || f.Definitions[1].Hash != newer.Hash() {
		t.Errorf("%+v %v", f, err)
	}
	parent := saga.New("parent", &saga.Options[order]{Key: orderID},
		saga.Child("kid", newer, func(r saga.Run[order]) order { return r.In }))
	b.Reset()
	if err := saga.Write(&b, parent, newer); err != nil {
		t.Fatal(err)
	}
	if f, err := plan.Read(&b); err != nil || len(f.Definitions) != 2 ||
		f.Definitions[1].Hash != newer.Hash() {
		t.Errorf("with its child: %+v %v", f, err)
	}
	wrong := saga.New("order", &saga.Options[order]{Key: orderID,
		Mappings: []saga.Mapping{{Skip: []string{"nothing"}}}}, held)
	if err := wrong.Faults(); err == nil || !strings.Contains(err.Error(),
		`"nothing", which is not listed`) || !strings.Contains(err.Error(), "not from another") {
		t.Error(err)
	}
	for name, text := range map[string]string{"text": older.Text(), "mermaid": older.Mermaid(),
		"svg": older.SVG()} {
		if !strings.Contains(text, "hold") || !strings.Contains(text, "pay") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestShapes: a shape is the JSON structure of a type.
func TestShapes(t *testing.T) {
	type inner struct{ X int }
	type all struct {
		inner
		A string            `json:"a"`
		B []byte            `json:"b,omitempty"`
		C map[string]*inner `json:"c"`
		D int               `json:"d,string"`
		E any
		F time.Time
		G [2]bool
		I string `json:"-"`
		J *all
	}
	d := saga.New("shapes", &saga.Options[all]{Key: func(all) string { return "k" }},
		saga.Do("a", func(context.Context, tx, saga.Run[all]) (inner, error) { return inner{}, nil }, nil,
			saga.NoEffect()))
	want := `{"E":any,"F":time.Time,"G":[bool],"J":saga_test.all,"X":number,"a":string,"b":string,"c":{*:{"X":number}},"d":string}`
	if g := d.Body().Plan.Graph; g.Shape != want || g.Steps[0].Shape != `{"X":number}` {
		t.Errorf("got  %s\nwant %s\n%s", g.Shape, want, g.Steps[0].Shape)
	}
}

type (
	size   int16
	upside int // decodes itself
	word   string
	shout  struct{ loud string } // is encoded as a text, and decoded from one
	node   struct {
		N    int8
		Next *node
	}
)

func (u *upside) UnmarshalJSON(b []byte) error { *u = upside(-len(b)); return nil }

func (s shout) MarshalText() ([]byte, error)     { return []byte(s.loud), nil }
func (s *shout) UnmarshalText(text []byte) error { s.loud = string(text); return nil }

// TestReads: an operator's output passes the check of a definition if and only if encoding/json can decode
// it.
func TestReads(t *testing.T) {
	reads[int](t)
	reads[*int8](t)
	reads[size](t)
	reads[uint](t)
	reads[uint64](t)
	reads[int64](t)
	reads[float32](t)
	reads[float64](t)
	reads[bool](t)
	reads[string](t)
	reads[json.Number](t)
	reads[json.RawMessage](t)
	reads[any](t)
	reads[upside](t)
	reads[shout](t)
	reads[time.Time](t)
	reads[time.Duration](t)
	reads[[]byte](t)
	reads[[3]byte](t)
	reads[[]int32](t)
	reads[map[string]int8](t)
	reads[map[int8]bool](t)
	reads[map[word]*uint](t)
	reads[map[shout]int](t)
	reads[struct {
		N  int8    `json:"n,string"`
		X  *uint16 `json:"x"`
		P  *string `json:"p,string"`
		At []struct{ T time.Time }
		word
		Size size
	}](t)
	reads[struct {
		size // not exported: no field
		node
		X []node `json:"x"`
	}](t)
	reads[node](t)
}

func reads[T any](t *testing.T) {
	t.Helper()
	d := saga.New("reads", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("a", func(context.Context, tx, saga.Run[string]) (out T, err error) { return out, nil }, nil,
			saga.NoEffect()))
	s := d.Body().Plan.Graph.Steps[0]
	for _, data := range []string{
		`null`, `0`, `1`, `-1`, `1.5`, `1.0`, `1e3`, `127`, `128`, `-129`, `255`, `256`, `-32768`,
		`32768`, `9007199254740993`, `9223372036854775807`, `9223372036854775808`,
		`18446744073709551615`, `18446744073709551616`, `1e39`, `true`, `"x"`, `""`, `"1"`, `"1.5"`,
		`"-1"`, `"AQID"`, `"AQI"`, `"2026-01-02T15:04:05.123+01:00"`, `"2026-01-02"`, `[]`, `[1]`,
		`[1,300]`, `[1.5]`, `["a"]`, `[null]`, `{}`, `{"n":1}`, `{"n":"1"}`, `{"n":"128"}`,
		`{"n":"null"}`, `{"n":null}`, `{"x":1}`, `{"x":-1}`, `{"p":"\"a\""}`, `{"p":"a"}`, `{"p":1}`,
		`{"At":[{"T":"2026-01-02T15:04:05Z"}]}`, `{"At":[{"T":"now"}]}`, `{"Size":1.5}`,
		`{"1":true}`, `{"128":true}`, `{"a":1}`, `{"a":1.5}`, `{"x":[{"N":1}]}`, `{"x":[{"N":300}]}`,
		`{"N":300}`, `{"Next":{"N":1}}`,
	} {
		err := json.Unmarshal([]byte(data), new(T))
		why := plan.Fits(cmp.Or(s.Reads, s.Shape), []byte(data))
		// A probable typing error, which encoding/json ignores.
		unknown := strings.Contains(why, "it has the field")
		if (err == nil) != (why == "") && !unknown {
			t.Errorf("%s read as %s (%T): %v, and told is %q", data, s.Reads, *new(T), err, why)
		}
	}
}
