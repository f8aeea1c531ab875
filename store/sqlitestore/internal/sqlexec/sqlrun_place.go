package sqlexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skald-go/skald/store"
)

// place identifies the opened file by its path and its inode.
type place struct {
	path string
	was  os.FileInfo
}

func placeOf(path string) (*place, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	was, err := os.Stat(path)
	return &place{path, was}, err
}

// checkPath returns a *store.MovedError if the path leads to another file or to no file. Other processes
// would not see a commit to the old file. The check takes about 1 µs.
func (p *place) checkPath() error {
	is, err := os.Stat(p.path)
	switch {
	case err == nil && os.SameFile(p.was, is):
		return nil
	case err == nil:
		return &store.MovedError{Observed: fmt.Sprintf(
			"%s is another file than the one that this process has open, end the process first", p.path)}
	case errors.Is(err, fs.ErrNotExist):
		return &store.MovedError{Observed: fmt.Sprintf(
			"%s is gone while this process has it open, end the process first", p.path)}
	}
	return nil // other errors, such as an unreadable folder, do not prove a move
}
