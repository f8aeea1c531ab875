package vitals

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/skald-go/skald/internal/column"
)

// mostWhy is the maximum size of a reason, in bytes.
const mostWhy = 1 << 10

// Why returns err as one line: its innermost cause, then the failed action in brackets.
func Why(err error) string {
	if err == nil {
		return ""
	}
	whole, root := line(err.Error()), line(rootOf(err).Error())
	action, _, found := strings.Cut(whole, root)
	if !found {
		action = whole
	}
	if action = strings.TrimRight(action, ": ;"); action != "" {
		root += " [" + action + "]"
	}
	return column.Clip(root, mostWhy)
}

// line returns text without line breaks.
func line(text string) string {
	breaks := func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }
	return strings.Join(strings.FieldsFunc(text, breaks), "; ")
}

// rootOf returns the innermost error with a useful text. There are exceptions:
//   - Among joined errors, it prefers an error of a server, and otherwise the last error.
//   - If the text of an error does not contain the text of the wrapped error, rootOf returns the outer
//     error: the wrapped error only classifies it.
//   - rootOf returns the error around the error of a system call, because only the outer error has the
//     address.
func rootOf(err error) error {
	switch e := err.(type) {
	case *net.OpError, *net.DNSError:
		return err
	case interface{ SQLState() string }:
		if _, wraps := err.(interface{ Unwrap() error }); !wraps {
			return err
		}
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		if len(all) == 0 {
			return err
		}
		best := rootOf(all[len(all)-1])
		for _, one := range all {
			root := rootOf(one)
			if _, server := root.(interface{ SQLState() string }); server {
				return root
			}
			if vague(best) {
				best = root
			}
		}
		return best
	}
	inner := errors.Unwrap(err)
	if inner == nil || !strings.Contains(err.Error(), inner.Error()) {
		return err
	}
	if root := rootOf(inner); !vague(root) {
		return root
	}
	return err
}

// vague reports whether err is only the error of a context, which does not name the action that took too
// long.
func vague(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
