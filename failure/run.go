// This file calls functions of users.

package failure

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/skald-go/skald"
)

// ErrQuit is the error of a user's function that has ended its goroutine.
var ErrQuit = errors.New(
	"the function ended its goroutine (runtime.Goexit, as t.FailNow, t.Fatal and testify's require do): return an error instead")

// Run calls a user's function in a separate goroutine, and returns its error in the form of Legible. It
// returns a *PanicError if the function panics, and ErrQuit if the function ends its goroutine. The caller
// has transactions and messages to finish, so the function must not end the caller's goroutine. A function
// that ignores its context blocks Run until it returns.
func Run(f func() error) error { return <-Start(f) }

// Start works like Run, but returns immediately. The channel receives the result.
func Start(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := ErrQuit                 // unless f returns
		defer func() { done <- err }() // also if the Error method of a panic's value ends the goroutine
		defer Recover(&err)
		err = Legible(f())
	}()
	return done
}

// Legible returns err, or another error if Skald cannot use err. It replaces err if its text panics (as with
// a nil pointer that is returned as an error), if err wraps itself, or if err is a rejection without a
// reason. A rejection without a reason becomes an ordinary failure. Legible also shortens a text of more than
// 16 KiB, because Skald copies, searches, logs and stores it. The result wraps err, unless err wraps itself
// or its text panics.
func Legible(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = fmt.Errorf("its function returned a %T that cannot be asked for its text (is it a nil pointer? return nil itself): %v", err, v)
		}
	}()
	text := err.Error()
	left := mostWrapped
	if !wrapsAtMost(err, &left) {
		return fmt.Errorf("its function returned a %T that wraps itself, or more than %d errors: %s",
			err, mostWrapped, clip(text))
	}
	var no *skald.RejectedError
	if errors.As(err, &no) && no.Err == nil {
		return fmt.Errorf("%w (%s)", skald.ErrNoReason, clip(text))
	}
	switch {
	case no != nil && len(no.Err.Error()) > longestText:
		reason := &skald.RejectedError{Publish: no.Publish,
			Err: &clippedError{clip(no.Err.Error()), []error{no.Err}}}
		return &clippedError{clip(text), []error{reason, err}}
	case len(text) > longestText:
		return &clippedError{clip(text), []error{err}}
	}
	return err
}

// mostWrapped is the maximum number of errors that an error may wrap. If an error wraps itself, errors.Is and
// errors.As never return.
const mostWrapped = 10_000

// wrapsAtMost counts err and the errors that it wraps. It subtracts their number from *budget, and returns
// false if there are more errors than that.
func wrapsAtMost(err error, budget *int) bool {
	for err != nil {
		if *budget--; *budget < 0 {
			return false
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				if !wrapsAtMost(one, budget) {
					return false
				}
			}
			return true
		default:
			return true
		}
	}
	return true
}

// longestText is the maximum length of an error text, in bytes. Stores keep less of it.
const longestText = 16 << 10

// clippedError is an error with a shortened text. It wraps the errors in of.
type clippedError struct {
	text string
	of   []error
}

func (e *clippedError) Error() string   { return e.text }
func (e *clippedError) Unwrap() []error { return e.of }

// clip returns text if it is short enough. Otherwise it returns the first longestText bytes, at most, and the
// length of text. It does not split a character.
func clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	end := longestText
	for !utf8.RuneStart(text[end]) && end > longestText-utf8.UTFMax {
		end--
	}
	return fmt.Sprintf("%s… (clipped, %d bytes in all)", text[:end], len(text))
}
