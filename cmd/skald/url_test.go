package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A password in a URL is taken from the environment and from a file in silence, from an argument with one
// warning; nothing shows it.
func TestPasswordInAURL(t *testing.T) {
	const bus = "amqp://u:hush@127.0.0.1:1/"
	store := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	file := filepath.Join(t.TempDir(), "url")
	must(t, os.WriteFile(file, []byte(bus+"\n"), 0o600))
	args := []string{"migrate", "--topic", "orders"}
	for name, p := range map[string]*program{
		"argument":    start(t, nil, append(args, "--broker", bus)...),
		"file":        start(t, nil, append(args, "--broker", "@"+file)...),
		"environment": start(t, []string{"SKALD_BROKER=" + bus}, args...),
	} {
		p.expect(6, "127.0.0.1:1")
		warned := strings.Count(p.errs.String(), "--broker has a password")
		if said := p.errs.String() + p.out.String(); strings.Contains(said, "hush") ||
			(warned == 1) != (name == "argument") {
			t.Errorf("%s: %s", name, said)
		}
	}
	start(t, nil, "migrate", "--store", store).expect(0)
	start(t, nil, "migrate", "--store", "@"+file+".gone").expect(4, "--store: read the URL", "there is no file")
	start(t, nil, "outbox", "status", "--store", "postgres://u:hush@127.0.0.1:1/d").expect(6,
		"--store has a password", "SKALD_STORE")
}
