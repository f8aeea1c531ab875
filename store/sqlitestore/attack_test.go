package sqlitestore

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("SKALD_TEST_RIVAL"); path != "" {
		rival(path)
		return
	}
	os.Exit(m.Run())
}

// rival is the program of another process. It has a mark in an open transaction until its standard input
// ends, then commits.
func rival(path string) {
	ctx := context.Background()
	db, err := Open(path)
	if err == nil {
		var u store.Unit[*sql.Tx]
		s := New(db, nil)
		if u, err = s.Begin(ctx, store.Intake{Marks: []store.Mark{markOf("rival")}}); err == nil {
			err = s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{message("t", "k")}})
			fmt.Println("in hand", err)
			_, _ = io.ReadAll(os.Stdin)
			err = errors.Join(err, u.Commit(ctx), db.Close())
		}
	}
	fmt.Println("end", err)
}

func markOf(id string) store.Mark {
	return store.Mark{Consumer: "c", Identity: store.Identity{Source: "/x", ID: id}, Outcome: store.Done}
}

type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func startRival(t *testing.T, path string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), "SKALD_TEST_RIVAL="+path)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.wants(t, "in hand <nil>\n")
	return p
}

func (p *process) wants(t *testing.T, line string) {
	t.Helper()
	if got, err := p.out.ReadString('\n'); got != line {
		t.Fatalf("the other process printed %q, %v", got, err)
	}
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestPausedProcess checks a paused process that has the file locked. Other processes wait for a limited
// time, their reads continue, and the commit of the paused process succeeds when it continues.
// Interleaving 10.
func TestPausedProcess(t *testing.T) {
	s, db, path := fresh(t)
	p := startRival(t, path)
	p.signal(t, syscall.SIGSTOP)
	took := time.Hour
	for n := 0; n < 5 && took > sqlexec.BusyTimeout; n++ { // the machine may be slow
		began := time.Now()
		_, err := s.Begin(t.Context(), store.Intake{Wait: 50 * time.Millisecond})
		if !errors.Is(err, store.ErrBusy) || !s.Outage(err) {
			t.Errorf("Begin = %v", err)
		}
		took = time.Since(began)
	}
	if took > sqlexec.BusyTimeout {
		t.Errorf("Begin waited for %v", took)
	}
	if tip, err := store.Snapshot(t.Context(), s, ""); tip != "" || err != nil {
		t.Errorf("Tick = %q, %v", tip, err)
	}
	if done, err := s.Maintain(t.Context(), store.Maintain{}); err != nil || len(done.Left) < 4 ||
		strings.Count(strings.Join(done.Left, "\n"), "another writer has the file") != len(done.Left) {
		t.Errorf("Maintain = %+v, %v", done, err)
	}
	p.signal(t, syscall.SIGCONT)
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.wants(t, "end <nil>\n")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{markOf("rival")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Found().Marks[0].Outcome; got != store.Done {
		t.Errorf("the mark is %v", got)
	}
	if _, err := u.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT count(*) FROM skald_outbox"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// TestKilledProcess checks that the transaction of a killed process is undone, and that the file is free.
// Interleaving 10.
func TestKilledProcess(t *testing.T) {
	s, db, path := fresh(t)
	p := startRival(t, path)
	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait() // it was killed
	u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{markOf("rival")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Found().Marks[0].Outcome; got != store.Fresh {
		t.Errorf("the mark is %v", got)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT count(*) FROM skald_outbox"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestSeqAfterRetention checks that the retention never resets seq, because the next row would then be below
// the cursor.
// Interleaving 10.
func TestSeqAfterRetention(t *testing.T) {
	s, db, _ := fresh(t)
	for range 5 {
		if _, err := s.Apply(t.Context(),
			store.Effect{Rows: []skald.Message{message("t", "k")}}); err != nil {
			t.Fatal(err)
		}
	}
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil || tip != "5" {
		t.Fatalf("Tick = %q, %v", tip, err)
	}
	leased, err := s.Lease(t.Context(), store.LeaseRequest{Owner: "r", Session: "1"})
	if err != nil || len(leased.Shards) != 16 {
		t.Fatalf("Lease = %+v, %v", leased, err)
	}
	for i, l := range leased.Shards {
		if done, err := s.Maintain(t.Context(),
			store.Maintain{Keep: store.Retention{Outbox: time.Nanosecond}}); err != nil || done.Rows != 0 {
			t.Fatalf("before shard %d is through: %+v, %v", i, done, err)
		}
		if _, err := s.Apply(t.Context(), store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch,
			Token: l.Token, Cursor: &store.Cursor{Base: tip}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("UPDATE skald_outbox SET stored_at = '2020-01-01T00:00:00.000Z'"); err != nil {
		t.Fatal(err)
	}
	if n := maintained(t, s, store.Retention{}); n != 5 {
		t.Fatalf("%d rows went", n)
	}
	if got, err := store.Snapshot(t.Context(), s, tip); got != tip || err != nil {
		t.Errorf("Tick = %q, %v", got, err)
	}
	if _, err := db.Exec("INSERT INTO skald_outbox (topic, type) VALUES ('t', 'x')"); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Snapshot(t.Context(), s, tip); got != "6" || err != nil {
		t.Errorf("Tick = %q, %v", got, err)
	}
	for _, base := range []string{"7", "x", "-1", "0x5"} {
		if _, err := store.Snapshot(t.Context(), s, base); !errors.Is(err, store.ErrMoved) {
			t.Errorf("Tick(%q) = %v", base, err)
		}
	}
}

// TestRolledBackInTheMiddle checks that after SQLite rolled back a transaction, its later statements do not
// commit one by one.
func TestRolledBackInTheMiddle(t *testing.T) {
	s, db, _ := fresh(t)
	if _, err := db.Exec("CREATE TABLE kv (k TEXT PRIMARY KEY, v TEXT NOT NULL) STRICT"); err != nil {
		t.Fatal(err)
	}
	u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{markOf("1")}})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := u.Tx().Prepare("INSERT INTO kv VALUES ('b', 'v')")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Tx().Exec("INSERT OR ROLLBACK INTO kv VALUES ('a', NULL)"); err == nil {
		t.Fatal("NULL was taken")
	}
	if _, err := prepared.Exec(); !errors.Is(err, sqlexec.ErrGone) {
		t.Errorf("a prepared statement behind it: %v", err)
	}
	_, err = u.Tx().Query("INSERT INTO kv VALUES ('c', 'v') RETURNING k")
	if !errors.Is(err, sqlexec.ErrGone) {
		t.Errorf("a query behind it: %v", err)
	}
	if err := s.Write(t.Context(), u.Tx(),
		store.Effect{Rows: []skald.Message{message("t", "k")}}); err == nil {
		t.Error("Write after the lost transaction succeeded")
	}
	if err := u.Commit(t.Context()); !errors.Is(err, sqlexec.ErrGone) {
		t.Errorf("Commit = %v", err)
	}
	if n := count(t, db,
		"SELECT (SELECT count(*) FROM kv) + (SELECT count(*) FROM skald_mark) + (SELECT count(*) FROM skald_outbox)"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
	if _, err := db.Exec("INSERT INTO kv VALUES ('d', 'v')"); err != nil { // the connection works again
		t.Error(err)
	}
	tx, err := db.Begin() // a transaction of the caller
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tx.Exec("INSERT OR ROLLBACK INTO kv VALUES ('a', NULL)")
	if _, err := tx.Exec("INSERT INTO kv VALUES ('e', 'v')"); !errors.Is(err, sqlexec.ErrGone) {
		t.Errorf("Exec = %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, sqlexec.ErrGone) {
		t.Errorf("Commit = %v", err)
	}
}

func TestSavepoint(t *testing.T) {
	s, _, _ := fresh(t)
	u, err := s.Begin(t.Context(), store.Intake{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"SAVEPOINT a", "", "ROLLBACK TO a", "RELEASE a", ""} {
		if step != "" {
			_, err = u.Tx().Exec(step)
		} else {
			err = s.Write(t.Context(), u.Tx(), store.Effect{Rows: []skald.Message{message("t", "k")}})
		}
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := pullAll(t, s); len(rows) != 1 || rows[0].Seq != 1 {
		t.Errorf("rows = %+v", rows)
	}
}

// TestForeignHandle checks a transaction of the caller on another *sql.DB, which sqlitestore did not open.
func TestForeignHandle(t *testing.T) {
	s, _, path := fresh(t)
	db, err := sql.Open("sqlite", sqlexec.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), tx, store.Effect{Rows: []skald.Message{message("t", "a"),
		message("t", "b")}}); err != nil {
		t.Fatal(err)
	}
	if rows := pullAll(t, s); len(rows) != 0 {
		t.Error("seen before the commit")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	own := New(db, nil)
	u, err := own.Begin(t.Context(), store.Intake{})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Tx().Commit(); err == nil {
		t.Error("a handler could commit")
	}
	if err := u.Commit(t.Context()); !errors.Is(err, store.ErrLent) {
		t.Errorf("Commit = %v", err)
	}
	if rows := pullAll(t, own); len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestManyWriters checks several handles with several workers each. Every commit exists once, in the order of
// seq, and there are no errors.
// Interleaving 10.
func TestManyWriters(t *testing.T) {
	s, db, path := fresh(t)
	other, _ := again(t, path)
	const workers, each = 4, 15
	var wg sync.WaitGroup
	for w := range workers {
		for _, st := range []*Store{s, other} {
			wg.Go(func() {
				for i := range each {
					u, err := st.Begin(t.Context(), store.Intake{Locks: []store.Lock{{Space: "s", Key: "k"}},
						Wait: 5 * time.Minute})
					if err != nil {
						t.Errorf("begin: %v", err)
						return
					}
					m := message("t", "k")
					m.Subject = fmt.Sprint(u.Found().Locks[0])
					if err := u.Commit(t.Context(), store.Effect{Rows: []skald.Message{m}}); err != nil {
						t.Errorf("commit %d of %d: %v", i, w, err)
					}
				}
			})
		}
		wg.Go(func() { // of the caller
			for range each {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				_ = s.Write(t.Context(), tx, store.Effect{Rows: []skald.Message{message("t", "mine")}})
				if err := tx.Commit(); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	version := 0
	for i, r := range pullAll(t, s) {
		if r.Seq != int64(i+1) {
			t.Errorf("row %d has seq %d", i, r.Seq)
		}
		if string(r.Key) == "k" {
			version++
			if r.Subject != fmt.Sprint(version) {
				t.Errorf("row %d is of version %s, want %d", i, r.Subject, version)
			}
		}
	}
	if version != 2*workers*each {
		t.Errorf("%d units left their row, want %d", version, 2*workers*each)
	}
}

// TestMigrateAtOnce checks two processes that open and migrate a new file at the same time.
// Interleaving 5.
func TestMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 6 {
		wg.Go(func() {
			db, err := Open(path)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer db.Close()
			applied, err := Migrate(t.Context(), db, nil)
			if err != nil {
				t.Errorf("migrate: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += len(applied)
		})
	}
	wg.Wait()
	if total != steps(t) {
		t.Errorf("%d migrations were applied", total)
	}
	_, db := again(t, path)
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal_mode = %s, %v", mode, err)
	}
	if n := count(t, db, "PRAGMA synchronous"); n != 2 {
		t.Errorf("synchronous = %d", n)
	}
	var source string
	if err := db.QueryRow("INSERT INTO skald_outbox (topic, type) VALUES ('t', 'x') RETURNING source").Scan(
		&source); err != nil || source != "/new/main" {
		t.Errorf("source = %q, %v", source, err)
	}
}
