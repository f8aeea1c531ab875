package killtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skald-go/skald/examples/shop/place"
)

var errDone = errors.New("exit status 0")

// instance is one process of a service at a time. It keeps its name over its sessions.
type instance struct {
	w             *world
	service, name string
	bin           string   // its program
	flags         []string // its additional flags

	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan error // receives the end of the process, once
	over     chan struct{}
	url      string // of the Order service, while it serves
	killed   bool   // killed by the test: it is expected to be gone
	sessions int
}

func (i *instance) String() string { return i.service + "-" + i.name }

// member is its name at the broker and in the outbox.
func (i *instance) member() string { return i.w.prefix + "." + i.String() }

// store returns the store URL. The second instance of a service uses the pooler, so that both kinds of
// connection work together.
func (i *instance) store() string {
	if i.w.pooler != "" && (*killPooler || i.name == "2") {
		return i.w.pooler
	}
	return i.w.postgres
}

func (i *instance) log() string { return filepath.Join(i.w.dir, i.String()+".log") }

// args returns the arguments of its command. The gateway is another program: Payment finds it at the same
// address in each session.
func (i *instance) args() []string {
	args := []string{"serve", i.service, "--broker", "kafka://" + i.w.kafka, "--instance", i.name, "--listen",
		"127.0.0.1:0"}
	switch {
	case i.service == place.Bank:
		// No moods that forget keys: another test has them. A key that is forgotten within seconds is used
		// twice by a request that waits for the database.
		args = []string{place.Bank, "--listen", i.w.bank, "--moods", "some"}
	case i.w.bank != "":
		args = append(args, "--gateway", "http://"+i.w.bank)
	}
	if i.service != place.Bank {
		args = append(args, i.flags...)
	}
	return append(args, "--store", i.store()+"&application_name="+i.String(), "--prefix", i.w.prefix)
}

// start begins a new session.
func (i *instance) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	file, err := os.OpenFile(i.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	i.sessions++
	fmt.Fprintf(file, "--- life %d, %.2f s\n", i.sessions, time.Since(i.w.began).Seconds())
	i.cmd = exec.Command(i.bin, i.args()...)
	i.cmd.Stderr = file
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := i.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", i, err)
	}
	i.killed, i.ended, i.over = false, make(chan error, 1), make(chan struct{})
	go i.watch(i.cmd, out, i.ended, i.over)
	return nil
}

// watch reads the address of the process from its log, and waits for its end.
func (i *instance) watch(cmd *exec.Cmd, out io.Reader, ended chan<- error, over chan<- struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "orders: "); ok {
			i.mu.Lock()
			i.url = strings.TrimSuffix(at, "/orders")
			i.mu.Unlock()
		}
	}
	err := cmd.Wait()
	if err == nil {
		err = errDone
	}
	i.mu.Lock()
	i.url = ""
	i.mu.Unlock()
	ended <- err
	close(over)
}

// serving reports whether this session serves.
func (i *instance) serving() bool {
	text, err := os.ReadFile(i.log())
	if err != nil {
		return false
	}
	_, session, _ := strings.Cut(string(text), fmt.Sprintf("--- life %d,", i.sessions))
	return strings.Contains(session, "msg=serving")
}

// address is where the Order service listens, or "" while it does not.
func (i *instance) address() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.url
}

func (i *instance) signal(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.killed = i.killed || s == os.Kill
	if err := i.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		i.w.t.Errorf("signal %s: %v", i, err)
	}
}

// kill ends the process like a crash, and waits until it is gone.
func (i *instance) kill() {
	i.signal(os.Kill)
	<-i.ended
}

func (i *instance) stop()  { i.signal(syscall.SIGSTOP) }
func (i *instance) leave() { i.signal(syscall.SIGTERM) }

func (i *instance) wake() error {
	i.signal(syscall.SIGCONT)
	return nil
}

// gone returns the end of a process that was not killed, or nil while it lives.
func (i *instance) gone() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.killed || i.cmd == nil {
		return nil
	}
	select {
	case err := <-i.ended:
		i.killed = true // report it once
		return err
	default:
		return nil
	}
}

// end ends the process, if there is one.
func (i *instance) end() {
	i.mu.Lock()
	cmd, over := i.cmd, i.over
	i.mu.Unlock()
	if over == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-over
}

// tail returns the end of its log.
func (i *instance) tail() string {
	text, err := os.ReadFile(i.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
