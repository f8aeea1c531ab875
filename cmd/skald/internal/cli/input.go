package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// MostURL is the maximum size of a file with a URL, and MostDefinitions that of a file with definitions of
// sagas.
const (
	MostURL         = 64 << 10
	MostDefinitions = 64 << 20
)

// ReadFile reads a file of at most most bytes. A file that never ends, like /dev/zero, is an error too.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &NoneError{What: "there is no file " + name}
	}
	if err != nil {
		return nil, &UsageError{What: err.Error()}
	}
	defer f.Close()
	return ReadAtMost(f, "the file "+name, most)
}

// ReadAtMost reads in, which the error calls name, up to its end.
func ReadAtMost(in io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(b)) > most:
		return nil, &UsageError{What: fmt.Sprintf("%s has more than %d bytes, which is the limit",
			name, most)}
	}
	return b, nil
}
