package failure_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
)

func TestRunSurvivesAnyEndOfAFunction(t *testing.T) {
	own := errors.New("no stock")
	if err := failure.Run(func() error { return own }); err != own {
		t.Errorf("its own error became %v", err)
	}
	if err := failure.Run(func() error { return nil }); err != nil {
		t.Errorf("no error became %v", err)
	}
	var p *failure.PanicError
	if err := failure.Run(func() error { panic("oops") }); !errors.As(err, &p) || p.Value != "oops" ||
		!strings.Contains(string(p.Stack), "TestRunSurvivesAnyEndOfAFunction") {
		t.Errorf("a panic became %v", err)
	}
	if err := failure.Run(func() error { runtime.Goexit(); return nil }); !errors.Is(err, failure.ErrQuit) {
		t.Errorf("the end of its goroutine became %v", err)
	}
}

// TestRunSurvivesAnyError checks errors that wrap themselves, for which errors.Is never returns or overflows
// the stack, and errors whose text ends the goroutine.
func TestRunSurvivesAnyError(t *testing.T) {
	for _, bad := range []error{ring{}, rings{}, fmt.Errorf("place: %w", ring{}), errors.Join(rings{}, errors.New("x"))} {
		err := failure.Run(func() error { return bad })
		if err == nil || !strings.Contains(err.Error(), "wraps itself") || !strings.Contains(err.Error(), "round") {
			t.Errorf("%T became %v", bad, err)
		}
		if failure.Of(err) != failure.Transient {
			t.Errorf("%T is of class %q", bad, failure.Of(err))
		}
	}
	deep := errors.New("root")
	for range 1000 {
		deep = fmt.Errorf("%w", deep)
	}
	if err := failure.Run(func() error { return deep }); err != deep {
		t.Errorf("an error that wraps 1,000 others became %v", err)
	}
	if err := failure.Run(func() error { return quits{} }); !errors.Is(err, failure.ErrQuit) {
		t.Errorf("an error whose text ends its goroutine became %T", err)
	}
	if err := failure.Run(func() error { panic(quits{}) }); !errors.Is(err, failure.ErrQuit) {
		t.Errorf("a panic with such an error became %T", err)
	}
}

type ring struct{}

func (ring) Error() string   { return "round" }
func (e ring) Unwrap() error { return e }

type rings struct{}

func (rings) Error() string     { return "round" }
func (e rings) Unwrap() []error { return []error{e, e} }

type quits struct{}

func (quits) Error() string { runtime.Goexit(); return "" }

// TestLongTextsAreClipped checks that a huge text of an error, a panic or a rejection is clipped where it
// enters, and that the error keeps its identity.
func TestLongTextsAreClipped(t *testing.T) {
	const most = 17 << 10
	huge := strings.Repeat("é", 15<<20)
	own := errors.New(huge)
	short := func(name string, err error) {
		t.Helper()
		if text := err.Error(); len(text) > most || !strings.Contains(text, "bytes in all)") ||
			strings.ToValidUTF8(text, "") != text {
			t.Errorf("%s has a text of %d bytes: %.40q", name, len(text), text)
		}
	}
	err := failure.Run(func() error { return skald.Permanent(own) })
	short("an error", err)
	if !errors.Is(err, own) || failure.Of(err) != failure.Permanent {
		t.Errorf("it lost its identity: %v", failure.Of(err))
	}

	err = failure.Run(func() error { panic(huge) })
	short("a panic", err)
	var p *failure.PanicError
	if !errors.As(err, &p) || len(p.Stack) == 0 || failure.Of(err) != failure.Panicked {
		t.Errorf("the panic is of class %s", failure.Of(err))
	}

	err = failure.Run(func() error {
		return fmt.Errorf("place: %w", skald.Reject(own, skald.Draft{Type: "refused"}))
	})
	short("a rejection", err)
	var no *skald.RejectedError
	if !errors.As(err, &no) || !errors.Is(err, own) || len(no.Publish) != 1 {
		t.Fatalf("the rejection lost its parts: %+v", no)
	}
	short("its reason", no)
}
