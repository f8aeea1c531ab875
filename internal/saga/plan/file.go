package plan

import (
	"encoding/json"
	"fmt"
	"io"
)

// File has the definitions of a build. The command skald reads it.
type File struct {
	Format      int       `json:"format"`
	Definitions []Written `json:"definitions"`
}

// Written is one definition in a file.
type Written struct {
	Hash     string    `json:"hash"`
	Graph    Graph     `json:"graph"`
	Mappings []Mapping `json:"mappings,omitempty"`
}

const format = 1

// Write writes definitions.
func Write(w io.Writer, ds ...Written) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(File{format, ds}); err != nil {
		return fmt.Errorf("write definitions: %w", err)
	}
	return nil
}

// Read reads a file that Write wrote. It returns an error for a definition with faults or with a wrong hash.
func Read(r io.Reader) (f File, err error) {
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return f, fmt.Errorf("read definitions: %w", err)
	}
	if f.Format != format {
		return f, fmt.Errorf("read definitions: the format is %d, this build reads %d: use the command of the same version as the build that wrote the file", f.Format, format)
	}
	for _, d := range f.Definitions {
		for _, fault := range d.Graph.Faults() {
			return f, fmt.Errorf("read definitions: saga %q: %w", d.Graph.Name, fault)
		}
		if h := d.Graph.Hash(); h != d.Hash {
			return f, fmt.Errorf("read definitions: saga %q: the hash is %s, but the file has %s: was it edited, or written by another version?", d.Graph.Name, h, d.Hash)
		}
	}
	return f, nil
}
