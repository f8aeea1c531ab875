package complete

import (
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Errors for a write of a message with an ID that the caller chose.
var (
	ErrOtherMessage = errors.New("another message was written under this id: give each message an id of its own, and repeat it unchanged")
	ErrForgotten    = errors.New("it is not known any more whether a message was written under this id, because marks of its time are deleted: " +
		"find out whether the transaction was committed, and write with a new id")
)

// MarkWritten returns a mark for a message with an ID that the caller chose, so that a second write of the
// ID finds the mark. The fingerprint of the mark covers the content of m, but not the time and the cause. A
// unique index on the outbox would not work: it could not cover all partitions, or rows that were deleted.
func MarkWritten(secret []byte, m *skald.Message) store.Mark {
	parts := [][]byte{[]byte(m.Topic), []byte(m.Type), m.Key, []byte(m.Subject), []byte(m.ContentType),
		[]byte(m.Schema), m.Data}
	for _, h := range m.Headers {
		parts = append(parts, []byte(h.Name), h.Value)
	}
	return store.Mark{Consumer: "skald.outbox", Identity: store.Identity{ID: m.ID}, Outcome: store.Done,
		Fingerprint: fingerprint.Of(secret, parts...)}
}
