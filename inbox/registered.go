package inbox

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/skald-go/skald/store"
)

// registered are the calls that gave an Inbox its handlers.
type registered struct {
	by     map[store.Kind]string
	faults []error
}

// add notes the call that gives a handler for k. Two handlers for one type of a topic are a fault: the later
// one would replace the other without a word.
func (r *registered) add(k store.Kind) {
	if r.by == nil {
		r.by = map[store.Kind]string{}
	}
	by := caller()
	if first, twice := r.by[k]; twice {
		r.faults = append(r.faults, fmt.Errorf("two handlers are given for the type %q of the topic %q, by %s and by "+
			"%s: leave one out, or give each an inbox of its own", k.Type, k.Topic, first, by))
	}
	r.by[k] = by
}

func (r *registered) fault() error { return errors.Join(r.faults...) }

// caller returns the function of this module that the user called, and where.
func caller() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	own, _ := frames.Next()
	module := path.Dir(own.Function[:strings.Index(own.Function, ".caller")])
	called := ""
	for {
		f, more := frames.Next()
		name, ours := strings.CutPrefix(f.Function, module+"/")
		pkg, _, _ := strings.Cut(name, ".")
		if ours = ours && (pkg == "inbox" || pkg == "saga" || pkg == "flow"); ours {
			called = strings.ReplaceAll(name, "[...]", "")
		}
		if !ours || !more {
			dir, file := path.Split(f.File)
			return fmt.Sprintf("%s at %s/%s:%d", called, path.Base(dir), file, f.Line)
		}
	}
}
