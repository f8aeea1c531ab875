package cli

import (
	"errors"

	"github.com/skald-go/skald/operate"
)

// verbCode returns the exit code for an error of package operate, or 0 for another error.
func verbCode(err error) int {
	var usage *operate.UsageError
	var refused *operate.RenameError
	var unsettled *operate.UnsettledError
	var none *operate.NoMatchError
	var unknown *operate.UnknownConsumerError
	var partly *operate.PartialError
	var stopped *operate.StoppedError
	switch {
	case errors.As(err, &usage), errors.As(err, &refused), errors.As(err, &unsettled),
		errors.Is(err, operate.ErrOtherMessage), errors.Is(err, operate.ErrForgotten):
		return exitUsage
	case errors.As(err, &none), errors.As(err, &unknown):
		return exitNone
	case errors.As(err, &partly):
		return exitPartly
	case errors.As(err, &stopped):
		return exitFailed
	case errors.Is(err, operate.ErrNothingToRecover):
		return exitState
	}
	return 0
}

// Reported returns true if a function of package operate that returned err also returned a valid report.
func Reported(err error) bool {
	var partly *operate.PartialError
	var stopped *operate.StoppedError
	return err == nil || errors.As(err, &partly) || errors.As(err, &stopped)
}
