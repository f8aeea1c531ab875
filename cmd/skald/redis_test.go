package main_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/skald-go/skald/internal/need"
)

// A Redis in front changes nothing but speed, whether it answers or not.
func TestDemoWithRedis(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(testing.TB) string{"real": need.Redis,
		"away": func(testing.TB) string { return "redis://127.0.0.1:1" }} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, "demo", "--orders", "20", "--json", "--dir",
				filepath.Join(t.TempDir(), "demo"), "--redis", at(t))
			p.expect(0)
			var o struct {
				Cache struct{ Hits, Misses, Unasked int64 }
			}
			if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil {
				t.Fatal(err)
			}
			if c := o.Cache; c.Hits+c.Misses+c.Unasked == 0 || name == "away" &&
				(c.Unasked == 0 || c.Hits+c.Misses > 0) {
				t.Errorf("%+v", c)
			}
		})
	}
	for _, bad := range [][]string{{"--redis", "nowhere"},
		{"--redis", "redis://127.0.0.1:1", "--sabotage", "no-mark"}} {
		start(t, nil, append([]string{"demo", "--dir", filepath.Join(t.TempDir(), "demo")},
			bad...)...).expect(2, "--redis")
	}
}
