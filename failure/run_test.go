package failure_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

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
