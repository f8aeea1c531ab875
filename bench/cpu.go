package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A snap is what has been used up to a moment: processor times in microseconds, WAL and transactions of the
// cluster.
type snap struct {
	at         time.Time
	lsn, xid   int64
	own, pg    float64
	busy, idle float64
}

// A probe reads processor times from /proc. Where the cluster runs elsewhere, or /proc is not there, it reads
// zeros.
type probe struct {
	conn       *pgx.Conn
	postmaster int
	also       int // a process that works for the contender; 0: none
}

func newProbe(ctx context.Context, url string) (*probe, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	p := &probe{conn: conn}
	var dir string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&dir); err != nil {
		return p, nil // no right to see it: then its processor time is not counted
	}
	if b, err := os.ReadFile(dir + "/postmaster.pid"); err == nil {
		p.postmaster, _ = strconv.Atoi(strings.SplitN(string(b), "\n", 2)[0])
	}
	return p, nil
}

func (p *probe) snap(ctx context.Context) snap {
	var s snap
	_ = p.conn.QueryRow(ctx, `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(),'0/0')::bigint,
		pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&s.lsn, &s.xid)
	p.cpu(&s)
	s.at = time.Now()
	return s
}

func (p *probe) cpu(s *snap) {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	s.own = float64(ru.Utime.Sec+ru.Stime.Sec)*1e6 + float64(ru.Utime.Usec+ru.Stime.Usec)
	if p.also > 0 {
		_, us := procTimes(strconv.Itoa(p.also))
		s.own += us
	}
	if p.postmaster > 0 {
		s.pg = clusterTimes(p.postmaster)
	}
	b, _ := os.ReadFile("/proc/stat")
	f := strings.Fields(strings.SplitN(string(b), "\n", 2)[0])
	for i, v := range f[min(1, len(f)):] {
		x, _ := strconv.ParseFloat(v, 64)
		switch x *= 10000; { // ticks of 10 ms
		case i > 7:
		case i == 3 || i == 4:
			s.idle += x
		default:
			s.busy += x
		}
	}
}

// clusterTimes is the processor time of a postmaster and all its backends.
func clusterTimes(postmaster int) float64 {
	_, total := procTimes(strconv.Itoa(postmaster))
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if c := e.Name()[0]; c < '1' || c > '9' {
			continue
		}
		parent, us := procTimes(e.Name())
		if parent != postmaster {
			continue
		}
		// A backend has one thread: schedstat counts it in nanoseconds.
		var ns float64
		if b, err := os.ReadFile("/proc/" + e.Name() + "/schedstat"); err == nil {
			if _, err := fmt.Sscan(string(b), &ns); err == nil {
				us = ns / 1000
			}
		}
		total += us
	}
	return total
}

// procTimes is the parent of a process and its processor time with that of its reaped children, in
// microseconds.
func procTimes(pid string) (parent int, us float64) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	parent, _ = strconv.Atoi(f[1])
	for _, i := range []int{11, 12, 13, 14} {
		x, _ := strconv.ParseFloat(f[i], 64)
		us += x * 10000
	}
	return parent, us
}

// foreign is the share of all processors, in percent, that neither we nor the cluster used.
func foreign(a, b snap) float64 {
	total := b.busy - a.busy + b.idle - a.idle
	if total <= 0 {
		return 0
	}
	return max(0, 100*(b.busy-a.busy-(b.own-a.own)-(b.pg-a.pg))/total)
}

// quiet waits, at most as long as most, until little else runs on the machine.
func (p *probe) quiet(ctx context.Context, most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end) && ctx.Err() == nil; {
		var a, b snap
		p.cpu(&a)
		time.Sleep(500 * time.Millisecond)
		p.cpu(&b)
		if foreign(a, b) < 10 {
			return
		}
	}
}
