package killtest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/store/pgstore"
)

// previous is the source of the shop and of all its packages at commit d035b3d: the build that represents
// the previous release. docs/versions.md describes how to create it.
const previous = "testdata/previous.tar.gz"

// unpack writes the files of a .tar.gz into dir.
func unpack(from, dir string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s leads out of the folder", h.Name)
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(h.Name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// newest is the number of the last migration.
func newest(t *testing.T, migrations fs.FS) (version int) {
	t.Helper()
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		n, err := strconv.Atoi(name[:strings.Index(name, "_")])
		if err != nil {
			t.Fatal(err)
		}
		version = max(version, n)
	}
	return version
}

// needed is the oldest version that a build must know to use the tables of this one.
func needed(t *testing.T) (version int) {
	t.Helper()
	files, err := fs.Glob(pgstore.Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(pgstore.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(text), "\n-- builds from "); ok {
			var n int
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			version = max(version, n)
		}
	}
	return version
}

// The previous build serves; this build migrates under load and works together with it; shards are resized
// while both work; the old build leaves, is rolled back to, and continues alone, except for messages that
// this build parked. Every order ends, and the auditors of both builds find every invariant kept.
func TestMixedBuilds(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	ctx := t.Context()
	current, old, from := w.bin, filepath.Join(w.dir, "previous-shop"), filepath.Join(w.dir, "previous")
	if err := unpack(previous, from); err != nil {
		t.Fatal(err)
	}
	first := "001_tables.sql"
	theirs, err := fs.ReadFile(os.DirFS(filepath.Join(from, "store/pgstore/migration")), first)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := fs.ReadFile(pgstore.Migrations(), first)
	if err != nil {
		t.Fatal(err)
	}
	if string(ours) != string(theirs) {
		t.Skipf("the build of %s has other tables than this one, from %s on: make it anew from one that has these", previous, first)
	}
	if need := needed(t); newest(t, os.DirFS(filepath.Join(from, "store/pgstore/migration"))) < need {
		t.Skipf("no build that knows no migration %03d works on the tables of this one: make %s anew from one that does", need, previous)
	}
	var before, after error
	w.atOnce(func() { before = w.build(from, old) }, func() { after = w.build(w.root, current) })
	if err := errors.Join(before, after); err != nil {
		t.Fatal(err)
	}

	w.bin = old
	w.startAll("1")
	w.tell("the previous build serves")
	had := w.applied(ctx)
	c := newCustomers(w)
	c.student = true
	more, stop := w.custom(c, *killRate)
	more(30)
	w.loosen(ctx)
	w.bin, w.flags = current, []string{"--older"}
	w.startAll("2")
	w.tell("this build has migrated and serves beside it")
	files, err := fs.Glob(pgstore.Migrations(), "*.sql")
	if after := w.applied(ctx); err != nil || len(after) != len(files) {
		t.Errorf("of %v this build has applied %v: %v", files, after, err)
	}
	w.tell("the tables had %d migrations, they have %d", len(had), len(files))
	more(40)
	var resized sync.WaitGroup
	for _, name := range service.Names() {
		resized.Go(func() {
			err := w.resize(ctx, w.prefix+"_"+name)
			for deadline := time.Now().Add(most); err != nil && time.Now().Before(deadline); {
				err = w.resize(ctx, w.prefix+"_"+name) // it resumes where it was
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	resized.Wait()
	w.tell("the rings are changed")
	more(40)
	w.dismiss("1")
	w.tell("the previous build has left")
	more(40)
	w.recall("1")
	w.tell("the previous build is back")
	more(40)
	w.dismiss("2")
	w.tell("this build has left")
	more(40)
	stop()
	w.recall("2") // the previous build does not know the parked messages
	w.tell("this build is back, for what it had parked")
	w.eventually("all orders to end", func() error { return w.ended(ctx, c) })
	for _, bin := range []string{old, current} {
		w.bin = bin
		w.eventually("the auditor to be content", func() error {
			found, err := w.audit()
			bad := slices.DeleteFunc(found, func(i audit.Invariant) bool {
				// The previous build has no gateway and no steps: it records an undo that had nothing to
				// undo, this build does not. Its Fulfilment does not subscribe to failures of earlier
				// services. Its own auditor checks that everything else was delivered.
				return i.OK || i.Name == "moved_once" || i.Name == "effect_once" ||
					i.Name == "delivered_to_all" && bin == current
			})
			if len(found) > 0 && len(bad) == 0 {
				return nil
			}
			return err
		})
	}
	w.notedOnce(ctx)
	w.dismiss("1")
	w.dismiss("2")
	for _, one := range w.instances {
		if text, err := os.ReadFile(one.log()); err != nil || strings.Contains(string(text), "violates") {
			// it may have succeeded in the end
			t.Errorf("%s was refused by a table of the other build's: %v\n%s", one, err, one.tail())
		}
	}
	t.Logf("%d orders, %d asked for twice\n%s", len(c.ids()), c.repeated, w.story())
}

// loosen is a migration of Payment's own tables, as a team would write it before it deploys the new build.
// It is no migration of Skald. In the previous build an account has the money that a customer can spend,
// and cannot fall below 0. This build asks the gateway and records its moves, whatever the balance. While
// both run, a customer can overdraw.
func (w *world) loosen(ctx context.Context) {
	w.t.Helper()
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `ALTER TABLE `+w.prefix+
		`_payment.accounts DROP CONSTRAINT accounts_balance_check`); err != nil {
		w.t.Fatal(err)
	}
}

// notedOnce is the part of effect_once that holds for both builds: no message has two effects or an effect
// without a mark, and each message marked as done has an effect if there are no steps.
func (w *world) notedOnce(ctx context.Context) {
	w.t.Helper()
	for _, name := range service.Names() {
		in := w.prefix + "_" + name + "."
		bad, err := query[string](ctx, w, `SELECT 'twice: ' || message FROM `+in+
			`journal GROUP BY source, message HAVING count(*) > 1
			UNION ALL SELECT 'unmarked: ' || message FROM `+in+`journal j WHERE NOT EXISTS (SELECT FROM `+in+`skald_keys k WHERE k.source = j.source AND k.key = j.message AND k.status = 'done')
			UNION ALL SELECT 'no effect: ' || k.key FROM `+in+`skald_keys k WHERE k.status = 'done' AND k.source <> '' AND NOT EXISTS (SELECT FROM `+in+`journal j WHERE j.source = k.source AND j.message = k.key)
				AND $1 NOT IN ('payment', 'inventory')`, name)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(bad) > 0 {
			w.t.Errorf("%s: %v", name, bad)
		}
	}
}

// recall starts dismissed instances again.
func (w *world) recall(name string) {
	w.t.Helper()
	for _, one := range w.instances {
		if one.name == name {
			if err := one.start(); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.eventually("instances "+name+" to serve again", func() error { return w.serve(name) })
}

// custom places that many orders a second until it is stopped; more waits for that many answers.
func (w *world) custom(c *customers, rate int) (more func(n int), stop func()) {
	orders, over, done := make(chan sample.Order), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(orders)
		pace := time.NewTicker(time.Second / time.Duration(rate))
		defer pace.Stop()
		for {
			for i, o := range sample.Orders(rand.Uint64(), 100) {
				if c.student && i%5 == 0 {
					o.Customer = sample.Student
				}
				select {
				case orders <- o:
				case <-over:
					return
				}
				<-pace.C
			}
		}
	}()
	go func() {
		defer close(done)
		c.place(w.t.Context(), orders)
	}()
	more = func(n int) {
		w.t.Helper()
		want := len(c.ids()) + n
		w.eventually("orders to be taken", func() error {
			if have := len(c.ids()); have < want {
				return fmt.Errorf("%d of %d", have, want)
			}
			return nil
		})
	}
	stop = sync.OnceFunc(func() {
		close(over)
		<-done
	})
	w.t.Cleanup(stop) // also in a failed test: report errors of customers before it ends
	return more, stop
}

func (w *world) applied(ctx context.Context) []int {
	w.t.Helper()
	have, err := query[int](ctx, w, `SELECT version FROM `+w.prefix+`_order.skald_migration ORDER BY version`)
	if err != nil {
		w.t.Fatal(err)
	}
	return have
}

func (w *world) resize(ctx context.Context, schema string) error {
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = pgstore.Resize(ctx, conn, &pgstore.ResizeOptions{Schema: schema, Outbox: 12})
	return err
}

// serve requires that all instances of that name serve.
func (w *world) serve(name string) error {
	for _, one := range w.instances {
		if one.name == name && !one.serving() {
			return fmt.Errorf("%s does not serve", one)
		}
	}
	return nil
}

// dismiss ends all instances of that name as a deployment does.
func (w *world) dismiss(name string) {
	w.t.Helper()
	for _, one := range w.instances {
		if one.name == name {
			one.mu.Lock()
			one.killed = true // it is expected to be gone
			one.mu.Unlock()
			one.leave()
		}
	}
	deadline := time.After(most)
	for _, one := range w.instances {
		if one.name != name {
			continue
		}
		select {
		case err := <-one.ended:
			if !errors.Is(err, errDone) {
				w.t.Errorf("%s: %v\n%s", one, err, one.tail())
			}
		case <-deadline:
			w.t.Fatalf("%s does not end\n%s", one, one.tail())
		}
	}
}
