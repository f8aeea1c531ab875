package need

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Cluster is a private PostgreSQL cluster in its own folder. It runs the installed programs. The end of the
// test stops and removes it.
type Cluster struct {
	t    testing.TB
	bin  string
	root string              // the folder with all its files
	as   *syscall.Credential // the user that runs it, because PostgreSQL refuses root; nil means this user
	Data string              // the data directory
	Port int
}

// NewCluster creates and starts a cluster that accepts all clients on 127.0.0.1 without a password. Each
// setting is a line of postgresql.conf.
func NewCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	c := emptyCluster(t)
	c.Do("initdb", "-D", c.Data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	c.Set(append([]string{"max_connections = 60", "shared_buffers = 16MB"}, settings...)...)
	c.Start()
	return c
}

// emptyCluster returns a cluster without data.
func emptyCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, bin: programs(t)}
	var err error
	if c.root, err = os.MkdirTemp("", "skald-pg-"); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		c.as = owner(t)
		if err := os.Chown(c.root, int(c.as.Uid), int(c.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	c.Data, c.Port = filepath.Join(c.root, "data"), FreePort(t)
	t.Cleanup(func() {
		c.Stop("immediate")
		_ = os.RemoveAll(c.root)
	})
	return c
}

// programs returns the folder of PostgreSQL's programs: the folder of initdb in PATH, or the newest one in
// /usr/lib/postgresql. It skips the test if it finds none.
func programs(t testing.TB) string {
	t.Helper()
	if at, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(at); err == nil { // the other programs may have no link in PATH
			return filepath.Dir(real)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	skipOrFail(t,
		"needs PostgreSQL's programs to start a cluster of its own: put the folder of initdb into PATH")
	return ""
}

// owner returns the user that runs the cluster if this process is root.
func owner(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	skipOrFail(t, "needs a user to run PostgreSQL as: it refuses to run as root")
	return nil
}

// Do runs one of PostgreSQL's programs and returns its output. It fails the test if the program fails.
func (c *Cluster) Do(name string, args ...string) string {
	c.t.Helper()
	out, err := c.try(name, args...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.root, "log"))
		c.t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, log)
	}
	return out
}

func (c *Cluster) try(name string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "PGHOST=127.0.0.1", "PGUSER=postgres", "PGPORT="+strconv.Itoa(c.Port),
		"LC_ALL=C")
	if c.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	}
	// The output goes to a file, because a started server would inherit a pipe and keep it open.
	out, err := os.CreateTemp(c.root, "out-")
	if err != nil {
		return "", err
	}
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, _ := os.ReadFile(out.Name())
	return string(bytes.TrimSpace(said)), err
}

// Set adds lines to postgresql.conf. The server reads them at its next start.
func (c *Cluster) Set(lines ...string) {
	c.t.Helper()
	f, err := os.OpenFile(filepath.Join(c.Data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Start starts the server and waits until it answers.
func (c *Cluster) Start() {
	c.t.Helper()
	c.Do("pg_ctl", "start", "-w", "-t", "300", "-D", c.Data, "-l", filepath.Join(c.root, "log"),
		"-o", fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=''", c.Port))
}

// Stop stops the server, if it runs. mode is "fast", or "immediate" to simulate a crash.
func (c *Cluster) Stop(mode string) {
	_, _ = c.try("pg_ctl", "stop", "-w", "-t", "300", "-m", mode, "-D", c.Data)
}

// URL returns the URL of a database.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.Port, database)
}

// SQL runs each statement separately with psql, and returns the unaligned output.
func (c *Cluster) SQL(database string, statements ...string) string {
	c.t.Helper()
	args := []string{"-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	return c.Do("psql", args...)
}

// Copy returns a new cluster with a copy of the files of c. c must be stopped, and Copy does not start the
// new cluster.
func (c *Cluster) Copy() *Cluster {
	c.t.Helper()
	to := emptyCluster(c.t)
	c.run("cp", "-a", c.Data, to.Data)
	return to
}

// Backup returns a new cluster with a physical backup of the running c. It does not start the new cluster.
func (c *Cluster) Backup() *Cluster {
	c.t.Helper()
	to := emptyCluster(c.t)
	c.Do("pg_basebackup", "-D", to.Data, "-X", "stream", "-c", "fast", "--no-sync")
	return to
}

// Restore replaces the files of c with those of the cluster source. Both clusters must be stopped.
func (c *Cluster) Restore(source *Cluster) {
	c.t.Helper()
	if err := os.RemoveAll(c.Data); err != nil {
		c.t.Fatal(err)
	}
	c.run("cp", "-a", source.Data, c.Data)
}

func (c *Cluster) run(name string, args ...string) {
	c.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// Standby starts and returns a streaming standby of c.
func (c *Cluster) Standby() *Cluster {
	c.t.Helper()
	to := emptyCluster(c.t)
	c.Do("pg_basebackup", "-D", to.Data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	to.Start()
	return to
}

// Promote promotes the standby c to a primary.
func (c *Cluster) Promote() {
	c.t.Helper()
	c.Do("pg_ctl", "promote", "-w", "-t", "300", "-D", c.Data)
}

// Dump writes a database to a file and returns its path. Load reads it into another cluster.
func (c *Cluster) Dump(database string, args ...string) string {
	c.t.Helper()
	path := filepath.Join(c.root, database+".sql")
	c.Do("pg_dump", append([]string{"-d", database, "-f", path}, args...)...)
	return path
}

// Load creates a database from a file that Dump wrote.
func (c *Cluster) Load(database, path string) {
	c.t.Helper()
	c.SQL("postgres", `CREATE DATABASE "`+database+`" TEMPLATE template0 ENCODING 'UTF8'`)
	c.Do("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-f", path)
}
