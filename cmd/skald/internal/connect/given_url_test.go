package connect

import (
	"testing"
)

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
