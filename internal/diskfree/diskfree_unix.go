//go:build unix

// Package diskfree tells how much room a disk has.
package diskfree

import "syscall"

// At is how many bytes of the file system of path may still be written by this user, and how many it has.
func At(path string) (free, all uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize) // its type differs between systems
	return uint64(s.Bavail) * size, uint64(s.Blocks) * size, nil
}
