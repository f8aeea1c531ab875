package main_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
)

// guarded is a cluster that asks for a password, s3cr3t, with the databases shop and latin.
func guarded(t *testing.T) *need.Cluster {
	t.Helper()
	c := need.NewCluster(t)
	c.SQL("postgres", "ALTER ROLE postgres PASSWORD 's3cr3t'", "CREATE DATABASE shop",
		"CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
		"CREATE ROLE nobody LOGIN PASSWORD 's3cr3t'")
	if err := os.WriteFile(filepath.Join(c.Data, "pg_hba.conf"),
		[]byte("host all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Stop("fast")
	c.Start()
	return c
}

// with is a URL of c with another user, password or database; "" is none.
func with(t *testing.T, at, user, password, database string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	u.Path = "/" + database
	return u.String()
}

// What a database refuses is said with the thing, the reason and the remedy, without the password, under an
// exit code of its own.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := guarded(t)
	at := c.URL("shop")
	in := with(t, at, "postgres", "s3cr3t", "shop")
	conn, err := pgx.Connect(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	start(t, nil, "migrate", "--store", in, "--schema", "old").expect(0)
	start(t, nil, "migrate", "--store", in, "--schema", "new").expect(0)
	do(t, conn,
		"CREATE SCHEMA bare; DELETE FROM old.skald_migration; UPDATE new.skald_migration SET builds = 99; INSERT INTO new.skald_migration (version, name, checksum, builds) VALUES (99, 'x', 'x', 99)")
	do(t, conn, "INSERT INTO new.skald_outbox (topic, type) VALUES ('orders', 'x')")
	file := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(file, []byte("127.0.0.1:*:*:*:s3cr3t-but-wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	migrate, relay, demo := []string{"migrate"}, []string{"relay", "--broker", "kafka://127.0.0.1:1"},
		[]string{"demo", "--orders", "5"}
	all := [][]string{migrate, relay, demo}
	for name, bad := range map[string]struct {
		commands [][]string
		more     []string
		store    string
		env      []string
		code     int
		says     []string
	}{
		"port": {all, nil, strings.Replace(in, "127.0.0.1:", "127.0.0.1:x", 1), nil, 2,
			[]string{"invalid port", "postgres://user@host:port/database"}},
		"sslmode": {all, nil, in + "&sslmode=maybe", nil, 2,
			[]string{"sslmode is invalid", "postgres://user@host:port/database"}},
		"wrong password": {all, nil, with(t, at, "postgres", "s3cr3t-but-wrong", "shop"), nil, 3,
			[]string{`user "postgres"`, "PGPASSWORD"}},
		"environment": {all, nil, with(t, at, "postgres", "", "shop"),
			[]string{"PGPASSWORD=s3cr3t-but-wrong"}, 3, []string{`user "postgres"`, "PGPASSWORD"}},
		"file": {all, nil, with(t, at, "postgres", "", "shop"), []string{"PGPASSFILE=" + file}, 3,
			[]string{`user "postgres"`, "PGPASSFILE"}},
		"command fails": {all, nil, with(t, at, "postgres", "", "shop"),
			[]string{"SKALD_PASSWORD_COMMAND=echo s3cr3t; exit 9"}, 3,
			[]string{"exit status 9", "SKALD_PASSWORD_COMMAND"}},
		"command is empty": {all, nil, with(t, at, "postgres", "", "shop"),
			[]string{"SKALD_PASSWORD_COMMAND=true"}, 3, []string{"prints nothing", "SKALD_PASSWORD_COMMAND"}},
		"command is wrong": {all, nil, with(t, at, "postgres", "", "shop"),
			[]string{"SKALD_PASSWORD_COMMAND=echo s3cr3t-but-wrong"}, 3,
			[]string{`user "postgres"`, "28P01"}},
		"no password": {all, nil, with(t, at, "postgres", "", "shop"), nil, 3,
			[]string{"password", "PGPASSWORD"}},
		"no user": {all, nil, with(t, at, "stranger", "s3cr3t", "shop"), nil, 3,
			[]string{`"stranger"`, "PGPASSWORD"}},
		"no database": {all, nil, with(t, at, "postgres", "s3cr3t", "nowhere"), nil, 4,
			[]string{`"nowhere"`, "createdb"}},
		"no schema": {[][]string{relay}, []string{"--schema", "none"}, in, nil, 4,
			[]string{"schema none", "skald migrate"}},
		"no table": {[][]string{relay}, []string{"--schema", "bare"}, in, nil, 5,
			[]string{"schema bare", "skald migrate", "--schema bare"}},
		"no version": {[][]string{relay}, []string{"--schema", "old"}, in, nil, 5,
			[]string{"schema old", "skald migrate", "--schema old"}},
		"later version": {[][]string{migrate, relay}, []string{"--schema", "new"}, in, nil, 5,
			[]string{"schema new", "99", "newer build"}},
		"not UTF-8": {[][]string{migrate, demo}, nil, with(t, at, "postgres", "s3cr3t", "latin"), nil,
			5, []string{"database latin", "LATIN1", "ENCODING 'UTF8'"}},
		"client": {[][]string{migrate}, nil, in + "&client_encoding=LATIN1", nil, 5,
			[]string{"connection", "LATIN1", "client_encoding=UTF8"}},
		"no right": {[][]string{relay}, []string{"--schema", "new"},
			with(t, at, "nobody", "s3cr3t", "shop"), nil, 3, []string{"USAGE on schema new",
				"GRANT USAGE ON SCHEMA new TO nobody", "skald roles relay --schema new"}},
		"no right to make": {[][]string{migrate}, nil, with(t, at, "nobody", "s3cr3t", "shop"), nil, 3,
			[]string{"schema public", "permission denied", "skald roles migrator --schema public"}},
		"nor for the demo": {[][]string{demo}, nil, with(t, at, "nobody", "s3cr3t", "shop"), nil, 3,
			[]string{"permission denied for database shop", "another user"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range bad.commands {
				if command[0] == "demo" {
					command = append(command[:len(command):len(command)], "--store", inFile(t, bad.store))
				}
				p := start(t, append(bad.env, "SKALD_STORE="+bad.store),
					append(command[:len(command):len(command)], bad.more...)...)
				p.expect(bad.code, bad.says...)
				if said := p.out.String() + p.errs.String(); strings.Contains(said, "s3cr3t") {
					t.Errorf("%s prints the password:\n%s", command, said)
				}
				if n := strings.Count(strings.TrimSpace(p.errs.String()), "\n"); n > 0 {
					t.Errorf("%d lines for one mistake:\n%s", n+1, &p.errs)
				}
			}
		})
	}
	if n := count(conn, "SELECT count(*) FROM new.skald_outbox"); n != 1 {
		t.Errorf("%d rows of one", n)
	}
}

// A command prints the password, anew for each connection: tokens last for minutes, and relays for months.
func TestPasswordOfACommand(t *testing.T) {
	t.Parallel()
	c := guarded(t)
	at, token := c.URL("shop"), filepath.Join(t.TempDir(), "token")
	prints := func(password string) {
		t.Helper()
		if err := os.WriteFile(token, []byte(password+"\nand more\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prints("s3cr3t")
	conn, err := pgx.Connect(t.Context(), with(t, at, "postgres", "s3cr3t", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	env := []string{"SKALD_STORE=" + with(t, at, "postgres", "", "shop"),
		"SKALD_PASSWORD_COMMAND=cat " + token}
	start(t, env, "migrate").expect(0)
	start(t, env, "outbox", "status").expect(0)
	start(t, env, "demo", "--orders", "3", "--faults", "none", "--store",
		inFile(t, with(t, at, "postgres", "", "shop"))).expect(0)
	p := start(t, env, "relay", "--broker", "kafka://127.0.0.1:1", "--listen",
		with(t, at, "postgres", "", "shop"))
	const relays = "FROM pg_stat_activity WHERE datname = 'shop' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
	const listeners = "SELECT count(*) " + relays + " AND query ILIKE 'LISTEN%'"
	p.until("a connection and a listener",
		func() bool { return count(conn, "SELECT count(*) "+relays) >= 2 && count(conn, listeners) == 1 })
	do(t, conn, "ALTER ROLE postgres PASSWORD 'an0ther'")
	prints("an0ther")
	last := count(conn, "SELECT max(extract(epoch FROM backend_start) * 1e3)::bigint "+relays)
	do(t, conn, "SELECT pg_terminate_backend(pid) "+relays)
	p.until("connections with the new password", func() bool {
		return count(conn, "SELECT count(*) "+relays) >= 2 && count(conn, listeners) == 1 &&
			count(conn, "SELECT min(extract(epoch FROM backend_start) * 1e3)::bigint "+relays) > last
	})
	p.signal(syscall.SIGTERM)
	p.expect(0)
	if strings.Contains(p.errs.String(), "an0ther") || strings.Contains(p.errs.String(), "s3cr3t") {
		t.Errorf("a password is printed: %s", &p.errs)
	}
}
