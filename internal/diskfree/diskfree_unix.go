//go:build unix

// Package diskfree reads the free space of a disk.
package diskfree

import "syscall"

// At returns the bytes that this user may still write to the file system of the path, and its size in bytes.
func At(path string) (free, all uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize) // its type differs between systems
	return uint64(s.Bavail) * size, uint64(s.Blocks) * size, nil
}
