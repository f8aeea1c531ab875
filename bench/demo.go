package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite"
)

const root = ".." // the module that the command belongs to

func demo() comparison {
	return comparison{
		name:  "demo",
		title: "skald demo: start to the first order in Order's database, peak memory, size of the stripped binary",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			dir, err := os.MkdirTemp("", prefix)
			if err != nil {
				return nil, err
			}
			b.later(func() error { return os.RemoveAll(dir) })
			bin := filepath.Join(dir, "skald")
			build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin,
				"./cmd/skald")
			build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build the command: %w\n%s", err, out)
			}
			info, err := os.Stat(bin)
			if err != nil {
				return nil, err
			}
			return []contender{{name: "skald demo", turn: func(ctx context.Context, m *meter) error {
				return m.demo(ctx, bin, filepath.Join(dir, fmt.Sprint("run", m.r.Rep)), info.Size())
			}}}, nil
		},
		bars: []bar{
			{what: "first order, ms", of: "skald demo", value: p50, most: 200},
			{what: "peak resident, MB", of: "skald demo", value: extra("peak_mb"), most: 60},
			{what: "stripped binary, MB", of: "skald demo", value: extra("binary_mb"), most: 45},
		},
	}
}

// demo runs the command as a newcomer does.
func (m *meter) demo(ctx context.Context, bin, dir string, size int64) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, "demo", "--dir", dir, "--json")
	cmd.Stderr = nil
	var out []byte
	started := time.Now()
	ended := make(chan error, 1)
	go func() {
		var err error
		out, err = cmd.Output()
		ended <- err
	}()
	looking, stop := context.WithCancel(ctx)
	defer stop()
	first := make(chan time.Duration, 1)
	go func() {
		if firstOrder(looking, filepath.Join(dir, "order.db")) == nil {
			first <- time.Since(started)
		}
		close(first)
	}()
	err := <-ended
	stop()
	if err != nil {
		return fmt.Errorf("skald demo: %w: %s", err, out)
	}
	took, ok := <-first
	if !ok {
		return errors.New("no order was seen while the demo ran")
	}
	m.lat = []time.Duration{took}
	m.end(ctx, 1)
	const mb = 1 << 20
	m.r.Extra = map[string]float64{"binary_mb": float64(size) / mb}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.r.Extra["peak_mb"] = float64(u.Maxrss) / 1024 // kilobytes on Linux
	}
	return nil
}

// firstOrder returns when the file holds an order.
func firstOrder(ctx context.Context, path string) error {
	for ctx.Err() == nil {
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(waitStep)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(100)")
	if err != nil {
		return err
	}
	defer db.Close()
	for ctx.Err() == nil {
		var n int
		if err := db.QueryRowContext(ctx, "select count(*) from orders").Scan(&n); err == nil && n > 0 {
			return nil
		}
		time.Sleep(waitStep)
	}
	return ctx.Err()
}
