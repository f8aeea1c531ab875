package main

import (
	"errors"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/operate"
)

// verbCode is the exit code for an error of operate; 0: it is none.
func verbCode(err error) int {
	var usage *operate.UsageError
	var refused *operate.RenameError
	var unsettled *operate.UnsettledError
	var none *operate.NoneError
	var unknown *operate.UnknownConsumerError
	var partly *operate.PartlyError
	var stopped *operate.StoppedError
	switch {
	case errors.As(err, &usage), errors.As(err, &refused), errors.As(err, &unsettled):
		return exit.Usage
	case errors.As(err, &none), errors.As(err, &unknown):
		return exit.None
	case errors.As(err, &partly):
		return exit.Partly
	case errors.As(err, &stopped):
		return exit.Failed
	case errors.Is(err, operate.ErrUnmoved):
		return exit.State
	}
	return 0
}
