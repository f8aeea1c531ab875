package vitals

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/skald-go/skald/internal/column"
)

// mostWhy bounds a reason, in bytes.
const mostWhy = 1 << 10

// Why returns err as one line, with its innermost cause first and what was done in brackets behind it.
func Why(err error) string {
	if err == nil {
		return ""
	}
	whole, root := line(err.Error()), line(rootOf(err).Error())
	did, _, found := strings.Cut(whole, root)
	if !found {
		did = whole
	}
	if did = strings.TrimRight(did, ": ;"); did != "" {
		root += " [" + did + "]"
	}
	return column.Clip(root, mostWhy)
}

// line is text without line breaks.
func line(text string) string {
	breaks := func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }
	return strings.Join(strings.FieldsFunc(text, breaks), "; ")
}

// rootOf returns the innermost error that says what is broken: of several that of a server, or else the last.
// An error whose text lacks the text of the error it wraps is the root: the wrapped error only classifies it.
// The error of a system call alone names no address.
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

// vague tells of errors that say that time was over, and not for what.
func vague(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
