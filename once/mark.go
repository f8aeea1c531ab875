package once

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// MaxResult is how many bytes of a result are kept with a mark, encoded.
const MaxResult = 64 << 10

// MaxHeaders is how many bytes of headers are kept with a mark, encoded.
const MaxHeaders = 16 << 10

// Judge returns what is known of an identity, compared with the fingerprint of what came under it now:
// store.Conflict where both fingerprints are known and differ. 0 is not known.
func Judge(v store.Verdict, fingerprint int64) store.Outcome {
	if v.Fingerprint != 0 && fingerprint != 0 && v.Fingerprint != fingerprint {
		return store.Conflict
	}
	return v.Outcome
}

// check refuses a request that cannot be known again.
func (q Request) check() error {
	switch {
	case q.Key == "" || q.Scope == "":
		return errNoKey
	case q.Keep < 0:
		return fmt.Errorf(
			"once %s: Keep is %v: say for how long the answer is kept, or 0 for as long as marks are", q,
			q.Keep)
	}
	return nil
}

// A ConflictError says that an identity was used before with another payload.
type ConflictError struct {
	Consumer string
	store.Identity
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf(
		"once: %s has taken %.200q of %.200q before, with another payload: give other work a key of its own",
		e.Consumer, e.ID, e.Source)
}

// A TooOldError says that an identity is of a time whose marks may be deleted: whether it was used is not
// known.
type TooOldError struct {
	Consumer string
	store.Identity
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf(
		"once: whether %s has taken %.200q of %.200q is not known any more: it is older than marks are kept",
		e.Consumer, e.ID, e.Source)
}

// Encode returns a result as it is stored with a mark; "" for nil. A codec that is nil is JSON. A panic of
// the codec, or of v's own encoding, is an error.
func Encode(ctx context.Context, codec skald.Codec, v any) (text string, err error) {
	defer failure.Recover(&err)
	if v == nil {
		return "", nil
	}
	if codec == nil {
		codec = skald.JSON{}
	}
	var m skald.Message
	if err := codec.Encode(ctx, &m, v); err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	if len(m.Data) > MaxResult {
		return "", &tooLargeError{"the result is", len(m.Data), MaxResult}
	}
	return string(m.Data), nil
}

// EncodeEmitted returns messages as one text, to be stored with the mark of what emitted them
// (store.Mark.Said).
func EncodeEmitted(ms []skald.Message) (string, error) {
	list := make([]json.RawMessage, len(ms))
	for i := range ms {
		text, err := column.EncodeMessage(&ms[i])
		if err != nil {
			return "", err
		}
		list[i] = json.RawMessage(text)
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// DecodeEmitted reads what EncodeEmitted wrote, so that a repeat can emit the same messages again.
func DecodeEmitted(text string) ([]skald.Message, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read what was emitted: %w", err)
	}
	out := make([]skald.Message, len(list))
	for i, one := range list {
		var err error
		if out[i], err = column.DecodeMessage(string(one)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
