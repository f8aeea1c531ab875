package sqlexec

import (
	"strings"
	"testing"
)

// TestStatementTwice checks that two packages cannot define a statement of the same name.
func TestStatementTwice(t *testing.T) {
	d := New(nil, "", map[string]string{"Walk": "SELECT 1"}, nil)
	if d.Err == nil || !strings.Contains(d.Err.Error(), "Walk is defined twice") {
		t.Errorf("a second Walk: %v", d.Err)
	}
	raw := map[string]string{"A": "SELECT 1"}
	if err := Merge(raw, map[string]string{"A": "SELECT 2"}); err == nil || raw["A"] != "SELECT 1" {
		t.Errorf("a second A: %v, and it is %s", err, raw["A"])
	}
}
