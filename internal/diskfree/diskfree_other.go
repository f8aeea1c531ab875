//go:build !unix

// Package diskfree tells how much room a disk has.
package diskfree

import "errors"

// At is not known on this system.
func At(string) (free, all uint64, err error) { return 0, 0, errors.ErrUnsupported }
