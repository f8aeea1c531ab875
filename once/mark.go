// This file checks requests against stored marks, and encodes the results that marks store.

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

// MaxResult is the maximum size of an encoded result, in bytes.
const MaxResult = 64 << 10

// MaxHeaders is the maximum size of encoded headers, in bytes.
const MaxHeaders = 16 << 10

// Judge returns the outcome of a stored verdict for a payload with this fingerprint. If both fingerprints are
// known and differ, it returns store.Conflict, otherwise v.Outcome. A fingerprint of 0 is unknown.
func Judge(v store.Verdict, fingerprint int64) store.Outcome {
	if v.Fingerprint != 0 && fingerprint != 0 && v.Fingerprint != fingerprint {
		return store.Conflict
	}
	return v.Outcome
}

// check returns an error if q has no key or scope, or a negative Keep.
func (q Request) check() error {
	switch {
	case q.Key == "" || q.Scope == "":
		return errNoKey
	case q.Keep < 0:
		return fmt.Errorf(
			"once %s: Keep is %v: set how long the answer is kept, or 0 for the retention of marks", q,
			q.Keep)
	}
	return nil
}

// ConflictError reports that an identity was used before, with another payload.
type ConflictError struct {
	Consumer string
	store.Identity
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf(
		"once: %s has taken %.200q of %.200q before, with another payload: give other work a key of its own",
		e.Consumer, e.ID, e.Source)
}

// TooOldError reports that an identity is older than the retention of marks. Its mark may be deleted, so it
// is unknown if the identity was used.
type TooOldError struct {
	Consumer string
	store.Identity
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf(
		"once: it is not known any more whether %s has taken %.200q of %.200q: it is older than the retention of marks",
		e.Consumer, e.ID, e.Source)
}

// Encode encodes a result to store it with a mark. It returns "" for nil. A nil codec means JSON. If the
// codec, or v's own encoding, panics, Encode returns an error.
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

// EncodeEmitted encodes messages as one text. The store keeps it with the mark of the message that emitted
// them (store.Mark.Emitted).
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

// DecodeEmitted decodes the text of EncodeEmitted, so that a duplicate can emit the same messages again.
func DecodeEmitted(text string) ([]skald.Message, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode emitted messages: %w", err)
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
