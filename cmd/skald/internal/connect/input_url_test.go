package connect

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// A password is looked for in each of several URLs, not across them.
func TestPasswordInOneOfSeveralURLs(t *testing.T) {
	for name, c := range map[string]struct {
		stores []string
		warns  bool
	}{
		"none": {stores: []string{"shop=postgres://u@h:5432/d", "mail=postgres://u@h/d"}},
		"one":  {stores: []string{"shop=postgres://u@h/d", "mail=postgres://u:hush@h/d"}, warns: true},
	} {
		var errs bytes.Buffer
		cmd := &cobra.Command{Use: "console"}
		cmd.SetErr(&errs)
		cmd.Flags().StringArray("store", nil, "")
		for _, s := range c.stores {
			if err := cmd.Flags().Set("store", s); err != nil {
				t.Fatal(err)
			}
		}
		if err := Resolve(cmd); err != nil || (errs.Len() > 0) != c.warns {
			t.Errorf("%s: %q, %v", name, errs.String(), err)
		}
	}
}

// A command that is shown names the same database, and shows no password.
func TestTypedStore(t *testing.T) {
	for _, c := range [][3]string{
		{"@/etc/the shop.url", "postgres://u:hush@h/d", `'@/etc/the shop.url'`},
		{"", "postgres://u@h/d?sslmode=disable", `'postgres://u@h/d?sslmode=disable'`},
		{"postgres://u@h/d", "postgres://u@h/d", "postgres://u@h/d"},
		{"", "postgres://u:hush@h/d", `"$SKALD_STORE"`},
		{"", "postgres://u@h/d?password=hush", `"$SKALD_STORE"`},
	} {
		if got := Typed(c[0], c[1]); got != c[2] {
			t.Errorf("%q, %q: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
