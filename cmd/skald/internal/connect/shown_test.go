package connect

import "testing"

func TestShown(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite:/tmp/a b":                         "sqlite:/tmp/a b",
		"postgres://ada:hush@db:5432/shop?x=1":    "postgres://ada@db:5432/shop?x=1",
		"postgres://db/shop?password=hush&x=1":    "postgres://db/shop?x=1",
		"postgres://db/shop?sslpassword=hush&x=1": "postgres://db/shop?x=1",
		"postgres://ada:hush@a:5432,b:5432/shop":  "postgres://ada@a:5432,b:5432/shop",
		"postgres://ada:hush@db:port/shop":        "postgres://…",
	} {
		if got := Shown(store); got != want {
			t.Errorf("%s is shown as %s, not %s", store, got, want)
		}
	}
}
