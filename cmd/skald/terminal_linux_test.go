package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A bulk change asks whoever sits at the terminal, and does nothing unless they type yes. (A terminal is made
// as pty(7) has it.)
func TestAskedAtTheTerminal(t *testing.T) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) {
		b := fresh(t).migrate()
		for i := range 3 {
			id := fmt.Sprint("m-", i)
			_, err := b.s.Apply(t.Context(),
				store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
					Identity: store.Identity{Source: "/orders", ID: id},
					Message: skald.Message{ID: id, Source: "/orders", Topic: "orders", Type: "order.placed",
						Key: []byte("k-" + id), Data: []byte("{}")},
					Attempts: 3, Last: store.Failure{At: time.Now(), Why: "declined"},
					Dead: &store.Death{At: time.Now(), Kind: "attempts", BlocksKey: true}}}})
			must(t, err)
		}
		drop := []string{"dead", "drop", "--all", "--reason", "not ours"}
		for _, answer := range []string{"no\n", "y\n", "\x04"} { // the last one ends the input
			p := b.asked(answer, drop...)
			if p.expect(2, "3 messages? Type yes:", "add --yes"); b.count("skald_parked") != 3 {
				t.Errorf("after %q there are %d", answer, b.count("skald_parked"))
			}
		}
		if b.asked("yes\n", drop...).expect(0); b.count("skald_parked") != 0 ||
			b.count("skald_audit WHERE action = 'drop'") != 3 {
			t.Errorf("after yes there are %d, and %d are noted", b.count("skald_parked"),
				b.count("skald_audit"))
		}
	})
}

func (b *bed) terminal() (keyboard, terminal *os.File) {
	b.t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(b.t, err)
	b.t.Cleanup(func() { _ = keyboard.Close() })
	must(b.t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	must(b.t, err)
	terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(b.t, err)
	b.t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

// asked is the command at a terminal where answer is typed once it asks.
func (b *bed) asked(answer string, args ...string) *program {
	b.t.Helper()
	keyboard, terminal := b.terminal()
	p := prepare(b.t, binary(), b.env, args...)
	p.cmd.Stdin = terminal
	p.begin().until("a question", func() bool { return strings.Contains(p.errs.String(), "Type yes:") })
	_, err := keyboard.WriteString(answer)
	must(b.t, err)
	return p
}
