package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
)

// lockOf is the lock of a program whose payments have these fields beside their id.
func lockOf(t *testing.T, path, fields string) {
	t.Helper()
	var r schema.Registry
	var text strings.Builder
	record := `{"type":"record","name":"Payment","fields":[{"name":"id","type":"string"}` + fields + `]}`
	if err := schema.WriteLock(&text, skald.Event[struct{}]{Topic: "payments", Type: "payment.processed",
		Codec: avro.CodecOf[struct{}](&r, record, nil)},
		skald.Event[struct{}]{Topic: "orders", Type: "order.placed"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A build server checks with a registry, a deployment pushes, and a laptop checks what was pulled.
func TestSchema(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	defer fake.Close()
	if err := fake.SetCompat("", sr.CompatBackward); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(t.TempDir(), "schemas.json")
	env := []string{"SKALD_REGISTRY=" + fake.URL()}
	skald := func(env []string, code int, says string, args ...string) {
		t.Helper()
		p := start(t, env, append([]string{"schema"}, args...)...)
		p.expect(code)
		if all := p.out.String() + p.errs.String(); !strings.Contains(all, says) {
			t.Errorf("skald schema %v says nothing of %q:\n%s", args, says, all)
		}
	}
	const subject = "payments-payment.processed: "
	lockOf(t, lock, "")
	skald(env, 0, subject+"new", "check", "--lock", lock)
	skald(env, 0, subject+"pushed, id ", "push", "--lock", lock)
	skald(env, 0, subject+"registered as version 1", "check", "--lock", lock)
	lockOf(t, lock, `,{"name":"method","type":"string","default":"card"}`)
	skald(env, 0, subject+"compatible (BACKWARD, 1 versions)", "check", "--lock", lock)
	skald(env, 0, subject+"pushed", "push", "--lock", lock)
	skald(env, 0, "1 subjects", "pull", "--lock", lock)

	// Version 2 can be read, version 1 has nothing in the field's place: the last version alone would not
	// tell.
	lockOf(t, lock, `,{"name":"method","type":"string"}`)
	for _, where := range [][]string{env, nil} {
		skald(where, 8, "version 1, read by this program: method: reader field has no default", "check",
			"--lock", lock)
	}
	skald(env, 8, subject+"incompatible (BACKWARD, 2 versions)", "push", "--lock", lock)
	skald(nil, 0, subject+"compatible (FORWARD, 2 versions)", "check", "--lock", lock, "--level", "forward")
	skald(nil, 8, `"state":"incompatible"`, "check", "--lock", lock, "--level", "full", "--json")
	skald(nil, 0, subject+"unchecked", "check", "--lock", lock, "--level", "none")
	if got, _, err := fake.RegisterSchema("last", sr.Schema{Schema: `"int"`}); err != nil || got != 3 {
		t.Errorf("schema %d is the next one: the refused one was pushed; %v", got, err)
	}
}

func TestSchemaBadInput(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "schemas.json")
	lockOf(t, lock, "")
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"lock":7}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "skald schema [command]", nil},
		{2, "--lock FILE", []string{"check"}},
		{4, "no such file", []string{"check", "--lock", lock + ".not"}},
		{2, "its format is 7", []string{"check", "--lock", broken}},
		{2, "run skald schema pull first", []string{"check", "--lock", lock}},
		{2, "--level is backward", []string{"check", "--lock", lock, "--level", "some"}},
		{2, "which registry?", []string{"push", "--lock", lock}},
		{2, "which registry?", []string{"pull", "--lock", lock}},
		{6, "check that the server runs", []string{"pull", "--lock", lock, "--registry", "http://127.0.0.1:1"}},
	} {
		start(t, nil, append([]string{"schema"}, c.args...)...).expect(c.code, c.says)
	}
}
