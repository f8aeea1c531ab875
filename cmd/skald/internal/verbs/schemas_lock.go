package verbs

import (
	"fmt"
	"os"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
)

// formats returns the supported schema languages.
func formats() []schema.Format {
	return []schema.Format{avro.Format{}, protobuf.Format{}, jsonschema.Format{}}
}

// readLock reads the schemas that a program declares.
func readLock(path string) (schema.Lock, error) {
	file, err := os.Open(path)
	if err != nil {
		return schema.Lock{}, &cli.NoneError{What: fmt.Sprintf("--lock: %v", err)}
	}
	defer file.Close()
	lock, err := schema.ReadLock(file)
	if err != nil {
		return lock, &cli.UsageError{What: fmt.Sprintf("--lock %s: %v", path, err)}
	}
	return lock, nil
}
