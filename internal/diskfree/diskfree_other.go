//go:build !unix

// Package diskfree reads the free space of a disk.
package diskfree

import "errors"

// At returns errors.ErrUnsupported, because Skald cannot read the free space on this system.
func At(string) (free, all uint64, err error) { return 0, 0, errors.ErrUnsupported }
