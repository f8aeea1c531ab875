package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// beside has the processor time of the server at addr counted instead of PostgreSQL's, until the end of the
// comparison. One of another machine counts nothing.
func (b *bench) beside(name, addr string) {
	was, called := b.probe.postmaster, b.second
	b.probe.postmaster, b.second = listener(addr), name
	b.later(func() error { b.probe.postmaster, b.second = was, called; return nil })
}

// listener is the process that listens at addr; 0: none of this machine is seen to.
func listener(addr string) int {
	_, port, err := net.SplitHostPort(strings.Split(addr, ",")[0])
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && sockets[to] {
			pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
			return pid
		}
	}
	return 0
}

// asNATS in the environment makes this program a NATS server: its address and its folder are the arguments.
const asNATS = "SKALD_BENCH_NATS"

// beNATS serves until its standard input ends.
func beNATS(addr, dir string) error {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: at.Port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 16 << 30,
	})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("NATS does not start on %s", addr)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	s.Shutdown()
	return nil
}

// server is a NATS in a process of its own, as it comes, until the end of the comparison.
func (b *bench) server(ctx context.Context) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr = l.Addr().String()
	dir, err := os.MkdirTemp("", prefix)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", err
	}
	b.later(func() error { return os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, addr, dir)
	cmd.Env, cmd.Stderr = append(os.Environ(), asNATS+"=1"), os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // its end ends the server
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start NATS: %w", err)
	}
	b.later(func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return "", fmt.Errorf("start NATS: it said %q: %w", line, err)
	}
	return addr, nil
}
