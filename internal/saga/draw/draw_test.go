package draw_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/draw"
	"github.com/skald-go/skald/internal/saga/plan"
)

func graph() plan.Graph {
	return plan.Graph{Name: "order", Deadline: 10 * time.Minute, Steps: []plan.Step{
		{Name: "hold", Kind: plan.Do, Undo: true, Each: true},
		{Name: "approve", Kind: plan.Wait, Signal: "approved", NoEffect: true},
		{Name: "charge", Kind: plan.Call, Undo: true, Pivot: true, After: []string{"hold", "approve"}},
		{Name: `ship "<fast>"`, Kind: plan.Command, After: []string{"charge"}},
		{Name: "wrap", Kind: plan.Child, Child: `"gift"`, After: []string{`ship "<fast>"`}},
	}}
}

func state() plan.State {
	return plan.State{Runs: []plan.Run{
		{Step: "hold", Occurrence: "tea", Phase: plan.IsDone},
		{Step: "hold", Occurrence: "rice", Phase: plan.Ready, Stuck: true},
		{Step: "approve", Phase: plan.Waiting},
	}}
}

func TestText(t *testing.T) {
	want := `saga order, deadline 10m0s
  1  hold           do, undo, each                      1 of 2 done, 1 of 2 stuck
  2  approve        wait, for approved  at the start    waiting
  3  charge         call, pivot, undo   after hold, approve
  4  ship "<fast>"  command
  5  wrap           child, of "gift"
`
	if got := squeeze(draw.Text(graph(), draw.Marks(state()))); got != squeeze(want) {
		t.Errorf("got\n%s", draw.Text(graph(), draw.Marks(state())))
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestMermaid(t *testing.T) {
	got := draw.Mermaid(graph(), draw.Marks(state()))
	for _, want := range []string{"flowchart LR\n",
		`s0["hold<br/>do, undo, each<br/>1 of 2 done, 1 of 2 stuck"]`, "class s0 stuck", "s0 --> s2",
		"s1 --> s2",
		`s2{{"charge<br/>call, pivot, undo"}}`, `s3["ship #quot;#lt;fast#gt;#quot;<br/>command"]`,
		`s4["wrap<br/>child, of #quot;gift#quot;"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
	if strings.Contains(draw.Mermaid(graph(), nil), "class") {
		t.Error("a definition has no classes")
	}
}

// TestSVG: the picture is valid XML for all names, and has neither a script nor a link.
func TestSVG(t *testing.T) {
	got := draw.SVG(graph(), draw.Marks(state()))
	if out := os.Getenv("SVG_OUT"); out != "" {
		if err := os.WriteFile(out, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, text := xml.NewDecoder(strings.NewReader(got)), ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "script" || token.Name.Local == "a" || token.Name.Local == "image" {
				t.Errorf("there is a %s", token.Name.Local)
			}
		case xml.CharData:
			text += string(token)
		}
	}
	for _, want := range []string{"hold", `ship "<fast>"`, "wait, for approved", "1 of 2 stuck"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %s", want)
		}
	}
}
