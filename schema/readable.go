package schema

import (
	"context"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Readable returns the payload of m as JSON. It uses the schema that schemas has under the name of the
// registry. It returns nil if the message has no schema id, or if schemas does not have the schema.
func Readable(ctx context.Context, schemas store.PayloadSchemas, registry string, m skald.Message,
	formats ...Format) ([]byte, error) {
	l, err := locate(m, false)
	if err != nil || !l.found {
		return nil, err
	}
	text, err := schemas.PayloadSchema(ctx, registry, l.id.String())
	if err != nil {
		return nil, err
	}
	s, there, err := defined(l.id, text)
	if err != nil || !there {
		return nil, err
	}
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name() == s.Format })
	if i < 0 {
		return nil, nil
	}
	var index []int
	if s.Format == Protobuf {
		if l, err = locate(m, true); err != nil {
			return nil, err
		}
		if index, err = readIndex(l.index); err != nil {
			return nil, err
		}
	}
	return formats[i].Readable(s, index, l.data)
}
