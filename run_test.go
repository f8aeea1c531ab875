package skald_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

type runner func(ctx context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// drains returns a runner that waits for the end of its context, sends its name to ended, and returns err.
func drains(ended chan<- string, name string, err error) runner {
	return func(ctx context.Context) error {
		<-ctx.Done()
		ended <- name
		return err
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan string, 2)
	first := runner(func(ctx context.Context) error {
		close(started)
		return drains(ended, "first", nil)(ctx)
	})
	done := make(chan error)
	go func() { done <- skald.Run(ctx, first, drains(ended, "second", nil)) }()
	<-started
	select {
	case err := <-done:
		t.Fatalf("Run ended with %v while its context was live", err)
	default:
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if len(ended) != 2 {
		t.Errorf("Run returned when %d of 2 had ended", len(ended))
	}
}

func TestRunStopsAllWhenOneFails(t *testing.T) {
	broken, other := errors.New("no table"), errors.New("could not drain")
	ended := make(chan string, 2)
	err := skald.Run(t.Context(),
		drains(ended, "first", other),
		runner(func(context.Context) error { return broken }),
		drains(ended, "third", nil),
	)
	if !errors.Is(err, broken) || !errors.Is(err, other) {
		t.Errorf("Run = %v, want both errors", err)
	}
	if len(ended) != 2 {
		t.Errorf("Run returned when %d of 2 others had ended", len(ended))
	}
}

func TestRunGoesOnWhenOneIsDone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	early := make(chan struct{})
	var second error
	err := skald.Run(ctx,
		runner(func(context.Context) error { close(early); return nil }),
		runner(func(ctx context.Context) error {
			<-early
			second = ctx.Err()
			stop()
			<-ctx.Done()
			return nil
		}),
	)
	if err != nil || second != nil {
		t.Errorf("Run = %v; the second was stopped with the first: %v", err, second)
	}
}

func TestRunNothing(t *testing.T) {
	if err := skald.Run(t.Context()); err != nil {
		t.Errorf("Run of nothing = %v", err)
	}
}

// A part records its name when it has ended.
type part struct {
	runner
	is skald.Status
}

func (p part) Status() skald.Status { return p.is }

// stopping is a part that Run informs of the shutdown.
type stopping struct {
	part
	told func()
}

func (s stopping) Stopping() { s.told() }

// TestRunStopsInStages checks that each part still runs when the earlier stages have ended, in any order of
// the arguments.
func TestRunStopsInStages(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 5)
	slow := make(chan struct{})
	web := stopping{part{drains(ended, "web", nil), skald.Status{Stage: skald.Serving}}, func() {
		ended <- "stopping"
		close(slow) // only now may the handlers end
	}}
	relay := part{drains(ended, "relay", nil), skald.Status{Stage: skald.Publishing}}
	handler := runner(func(ctx context.Context) error {
		<-ctx.Done()
		<-slow
		return drains(ended, "handler", nil)(ctx)
	})
	inbox := part{handler, skald.Status{Stage: skald.Handling}}
	stop()
	if err := skald.Run(ctx, web, relay, handler, inbox); err != nil {
		t.Error(err)
	}
	close(ended)
	var order []string
	for name := range ended {
		order = append(order, name)
	}
	if want := "[stopping handler handler relay web]"; fmt.Sprint(order) != want {
		t.Errorf("ended in the order %v, want %s", order, want)
	}
}

// TestRunNamesThePartThatFailed checks that the error of a part begins with its name, once, and that the
// other parts stop in their order.
func TestRunNamesThePartThatFailed(t *testing.T) {
	missing := errors.New("no table")
	ended := make(chan string, 2)
	err := skald.Run(t.Context(),
		part{drains(ended, "web", nil), skald.Status{Name: "web", Stage: skald.Serving}},
		part{drains(ended, "relay", nil), skald.Status{Name: "relay", Stage: skald.Publishing}},
		part{runner(func(context.Context) error { return missing }), skald.Status{Name: "consumer stock"}},
		part{runner(func(context.Context) error { return fmt.Errorf("relay: %w", missing) }),
			skald.Status{Name: "relay"}},
	)
	if want := "consumer stock: no table\nrelay: no table"; !errors.Is(err, missing) || err.Error() != want {
		t.Errorf("Run = %v, want %s", err, want)
	}
	if first, second := <-ended, <-ended; first != "relay" || second != "web" {
		t.Errorf("%s ended before %s", first, second)
	}
}

const signalled = "SKALD_TEST_RUN_UNTIL_SIGNAL"

// TestSignals checks that the first signal stops Run, and that the second signal ends a process that does
// not stop.
func TestSignals(t *testing.T) {
	if how := os.Getenv(signalled); how != "" { // the process that gets the signals
		err := skald.RunUntilSignal(context.Background(), runner(func(ctx context.Context) error {
			fmt.Println("running")
			<-ctx.Done()
			if how == "hangs" {
				select {}
			}
			return errors.New("stopped")
		}))
		fmt.Println(err)
		os.Exit(3)
	}
	for how, want := range map[string]string{"ends": "exit status 3", "hangs": "signal: terminated"} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSignals$")
		c.Env = append(os.Environ(), signalled+"="+how)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = c.Stdout
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		said := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said += lines.Text() + "\n"
			again := how == "hangs" && strings.Contains(lines.Text(), "skald: stopping")
			if lines.Text() == "running" || again {
				if err := c.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
			}
		}
		if err := c.Wait(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s; it printed\n%s", how, err, want, said)
		}
		if !strings.Contains(said, "terminated") {
			t.Errorf("%s: the log does not name the signal:\n%s", how, said)
		}
	}
}

func ExampleRun() {
	tick := runner(func(ctx context.Context) error { // a relay, an inbox
		<-ctx.Done()
		fmt.Println("handed back its leases")
		return nil
	})
	ctx, stop := context.WithTimeout(context.Background(), time.Millisecond) // signal.NotifyContext in a main
	defer stop()
	fmt.Println(skald.Run(ctx, tick))
	// Output:
	// handed back its leases
	// <nil>
}
