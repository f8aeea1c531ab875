package sqlexec

import (
	"strings"
	"testing"
)

// A statement of one package must not take the place of another's.
func TestStatementTwice(t *testing.T) {
	d := New(nil, "", map[string]string{"Walk": "SELECT 1"}, nil)
	if d.Err == nil || !strings.Contains(d.Err.Error(), "Walk is there twice") {
		t.Errorf("a second Walk: %v", d.Err)
	}
	raw := map[string]string{"A": "SELECT 1"}
	if err := Merge(raw, map[string]string{"A": "SELECT 2"}); err == nil || raw["A"] != "SELECT 1" {
		t.Errorf("a second A: %v, and it is %s", err, raw["A"])
	}
}
