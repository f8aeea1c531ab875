package endpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func kind() Kind {
	return Kind{Schemes: []string{"amqp", "amqps"}, Env: "SKALD_X", Path: true,
		Options: []string{"tls", "ca", "cert", "key", "user", "password_file", "colour"}}
}

func TestParse(t *testing.T) {
	u, err := kind().Parse("amqps://one:1,[::1]:2/a%2Fb?colour=red", nil)
	if err != nil || u.Scheme != "amqps" || u.Hosts != "one:1,[::1]:2" || u.Path != "a%2Fb" ||
		u.Get("colour") != "red" || u.Get("ca") != "" {
		t.Errorf("got %+v: %v", u, err)
	}
	for _, bad := range []string{
		"", "amqp:", "amqp://", "http://h:1", "amqp://h", "amqp://h:", "amqp://:1", "amqp://u:hush@h:1",
		"amqp://u:hu/sh@h:1", "amqp://h:1?password=hush",
		"amqp://h:1?hush", "amqp://h:1?colour=a&colour=b", "amqp://h:1,?%zzhush", "amqp://h:1?x=%zzhush",
		"amqp://h:1?user=u:hush@h",
	} {
		u, err := kind().Parse(bad, nil)
		if err == nil && bad == "amqp://h:1?user=u:hush@h" {
			_, err = u.Identity()
		}
		if err == nil || strings.Contains(err.Error(), "=hush") || strings.Contains(err.Error(), ":hu") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	plain := kind()
	plain.Path = false
	if _, err := plain.Parse("amqp://h:1/path", nil); err == nil {
		t.Error("a path that means nothing is taken")
	}
	if _, err := plain.Parse("amqp://h:1/?colour=red", nil); err != nil {
		t.Error(err)
	}
}

// URLs of RabbitMQ and NATS may have a user and password in front of the host, and no port. No error shows
// either.
func TestInFrontOfTheHost(t *testing.T) {
	k := kind()
	k.Ports = map[string]string{"amqp": "5672", "amqps": "5671"}
	for text, want := range map[string]string{
		"amqp://guest:guest@host/":                  "host:5672 guest guest",
		"amqp://guest:guest@host:7/a%2Fb":           "host:7 guest guest",
		"amqps://u:p%40%2F%3A@[::1]":                "[::1]:5671 u p@/:",
		"amqp://u:a@b@host":                         "host:5672 u a@b",
		"amqp://u:@host":                            "host:5672 u ",
		"amqp://u:p@one:1,two":                      "one:1,two:5672 u p",
		"amqp://u:p@one:1,amqp://u:p@two:2/?tls=on": "one:1,two:2 u p",
		"amqp://host":                               "host:5672  ",
	} {
		u, err := k.Parse(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		who, err := u.Identity()
		pass := ""
		if err == nil && who.Password != nil {
			pass, err = who.Password()
		}
		if got := u.Hosts + " " + who.User + " " + pass; got != want || err != nil ||
			HasPassword(text) != (who.User != "") {
			t.Errorf("%s: %q, want %q, %v", text, got, want, err)
		}
	}
	for _, bad := range []string{"amqp://u:hush@", "amqp://:hush@h", "amqp://u:hu%zsh@h", "amqp://u:hu/sh@h",
		"amqp://u:hush@h,v:hush2@i", "amqp://u:hush@h:x:y",
		"amqp://u:hush@h?user=v", "amqp://u:hush@h?password_file=f"} {
		u, err := k.Parse(bad, nil)
		if err == nil {
			_, err = u.Identity()
		}
		if err == nil || strings.Contains(err.Error(), "hu") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A NATS token is a secret, a user is not.
func TestTokenIsAPassword(t *testing.T) {
	for text, want := range map[string]bool{
		"nats://token@host": true, "nats://u:p@host": true, "nats://token@one,token@two/?tls=on": true,
		"nats://host": false, "nats://u@host?password_file=f": false, "postgres://u@host/d": false,
		"amqp://u@host": false,
	} {
		if HasPassword(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// TestIdentity: the user comes from the URL or the environment; the password from a file that is read each
// time, or from the environment.
func TestIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\r\n")
	env := map[string]string{}
	ask := func(query string) (identity, error) {
		t.Helper()
		u, err := kind().Parse("amqp://h:1?"+query, func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		return u.Identity()
	}
	if who, err := ask(""); err != nil || who.User != "" {
		t.Errorf("nobody: %+v, %v", who, err)
	}
	for _, bad := range []string{"user=u", "password_file=" + file, "user=u&password_file=/no/such/file"} {
		if _, err := ask(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	who, err := ask("user=u&password_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two"} {
		write(want + "\n")
		if got, err := who.Password(); err != nil || got != want || who.User != "u" {
			t.Errorf("%s has %q, want %q: %v", who.User, got, want, err)
		}
	}
	write("\n")
	if _, err := who.Password(); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
	env["SKALD_X_USER"], env["SKALD_X_PASSWORD"] = "v", "three"
	if who, err = ask(""); err != nil || who.User != "v" {
		t.Fatalf("from the environment: %+v, %v", who, err)
	}
	if got, err := who.Password(); err != nil || got != "three" {
		t.Errorf("from the environment: %q, %v", got, err)
	}
}

func TestTLS(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"": "off", "tls=off": "off", "tls=on": "on",
		"tls=maybe": "on or off", "tls=off&ca=f": "contradicts", "cert=f": "both", "key=f": "both",
		"ca=/no/such/file": "authorities",
		"ca=" + junk:       "no certificate", "cert=" + junk + "&key=" + junk: "certificate",
	} {
		u, err := kind().Parse("amqp://h:1?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch c, err := u.TLS(); {
		case err != nil:
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", query, err)
			}
		case (c != nil) != (want == "on"), want != "on" && want != "off":
			t.Errorf("%s: %v", query, c)
		}
	}
}

// A password that is not percent-encoded is refused before any part of it is used as a host, and no error
// contains a part of it.
func TestPasswordsThatAreNotEncoded(t *testing.T) {
	brokers := kind()
	brokers.Ports = map[string]string{"amqp": "5672"}
	for _, secret := range []string{"hush/33", "hush?44", "hush#55", "77/hush", "88?hush", "99#hush", "hush%",
		"hush,aa", "66,hush", "hush:bb/cc", "11?hush=2", "hush/a@b"} {
		for _, rest := range []string{"@host/db", "@host:1", "@one,two/db?tls=on"} {
			if strings.HasPrefix(secret, "11?") {
				rest = "&x" + rest
			}
			url := "amqp://u:" + secret + rest
			_, err := brokers.Parse(url, nil)
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", url, err)
			}
			if err := CheckPostgres(url); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
	for _, url := range []string{"postgres://u:a@hush@host/db", "postgres://u:@hush@h1,h2/db"} {
		if err := CheckPostgres(url); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"postgres://u:a%40b@host:5432/db?user=me@realm", "postgres:///db?host=/run",
		"host=a user=b password=c@d", "postgres://u@h1:1,h2:2/db", "postgres://u:p@[::1]:5432/db",
		"postgres://[::1]/db", "sqlite:a@b.db", "http://u:p@registry:8081/v1"} {
		if err := CheckPostgres(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
