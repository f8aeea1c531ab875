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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/store/pgstore"
)

// previous is the source of the shop, and of all that it is built of, as it was in commit d035b3d: the build that
// stands for the release before this one. docs/versions.md says how it is made anew.
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

// The build before this one serves; this one migrates under load and works beside it; the rings are changed while both
// work; the old one leaves, is rolled back to, and goes on alone, but for what this one had parked. Every order ends, and the auditors of both builds
// find each promise kept.
func TestMixedBuilds(t *testing.T) {
	w := bareWorld(t)
	ctx := t.Context()
	current, old := w.bin, filepath.Join(w.dir, "previous-shop")
	if err := unpack(previous, filepath.Join(w.dir, "previous")); err != nil {
		t.Fatal(err)
	}
	w.build(filepath.Join(w.dir, "previous"), old)

	w.bin = old
	w.startAll("1")
	w.tell("the previous build serves")
	before := w.applied(ctx)
	c := newCustomers(w)
	more, stop := w.custom(c)
	more(30)
	w.bin = current
	w.startAll("2")
	w.tell("this build has migrated and serves beside it")
	files, err := fs.Glob(pgstore.Migrations(), "*.sql")
	if after := w.applied(ctx); err != nil || len(after) != len(files) {
		t.Errorf("of %v this build has applied %v: %v", files, after, err)
	}
	w.tell("the tables had %d migrations, they have %d", len(before), len(files))
	more(40)
	for _, name := range service.Names() {
		w.resize(ctx, prefix+"_"+name)
	}
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
	w.recall("2") // the previous build does not know of what was parked
	w.tell("this build is back, for what it had parked")
	w.eventually(2*time.Minute, "all orders to end", func() error { return w.ended(ctx, c) })
	for _, bin := range []string{old, current} {
		w.bin = bin
		w.eventually(2*time.Minute, "the auditor to be content", func() error {
			found, err := w.audit()
			bad := slices.DeleteFunc(found, func(i audit.Invariant) bool {
				return i.OK || i.Name == "moved_once" // the previous build knows no gateway
			})
			if len(found) > 0 && len(bad) == 0 {
				return nil
			}
			return err
		})
	}
	w.dismiss("1")
	w.dismiss("2")
	t.Logf("%d orders, %d asked for twice\n%s", len(c.ids()), c.repeated, w.story())
}

// recall starts instances that were dismissed.
func (w *world) recall(name string) {
	w.t.Helper()
	for _, one := range w.instances {
		if one.name == name {
			if err := one.start(); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.eventually(time.Minute, "instances "+name+" to serve again", func() error { return w.serve(name) })
}

// custom places orders until it is stopped; more waits for so many to be answered.
func (w *world) custom(c *customers) (more func(n int), stop func()) {
	orders, over, done := make(chan sample.Order), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(orders)
		pace := time.NewTicker(time.Second / 15)
		defer pace.Stop()
		for {
			for _, o := range sample.Orders(rand.Uint64(), 100) {
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
		w.eventually(2*time.Minute, "orders to be taken", func() error {
			if have := len(c.ids()); have < want {
				return fmt.Errorf("%d of %d", have, want)
			}
			return nil
		})
	}
	return more, func() {
		close(over)
		<-done
	}
}

func (w *world) applied(ctx context.Context) []int {
	w.t.Helper()
	have, err := query[int](ctx, w, `SELECT version FROM `+prefix+`_order.skald_migration ORDER BY version`)
	if err != nil {
		w.t.Fatal(err)
	}
	return have
}

func (w *world) resize(ctx context.Context, schema string) {
	w.t.Helper()
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := pgstore.Resize(ctx, conn, &pgstore.ResizeOptions{Schema: schema, Outbox: 12, Marks: 20}); err != nil {
		w.t.Fatal(err)
	}
}

// serve wants all instances of that name to serve.
func (w *world) serve(name string) error {
	for _, one := range w.instances {
		if one.name == name && !one.serving() {
			return fmt.Errorf("%s does not serve", one)
		}
	}
	return nil
}

// dismiss has all instances of that name end as a deployment does.
func (w *world) dismiss(name string) {
	w.t.Helper()
	for _, one := range w.instances {
		if one.name == name {
			one.mu.Lock()
			one.killed = true // it is not to be there
			one.mu.Unlock()
			one.leave()
		}
	}
	deadline := time.After(time.Minute)
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
