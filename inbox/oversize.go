// This file makes of a record that is too large what is kept of it as a dead letter.

package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/shortlog"
)

const (
	keptData = 64 << 10 // of the data, and of the key and the headers
	keptText = 1 << 10  // of each of the attributes
)

// is tells whether the data of d, or all else of it, is more than most bytes.
func is(d *broker.Delivery, most int) bool {
	return len(d.Data) > most || rest(d) > most
}

// rest returns the bytes of d without its data.
func rest(d *broker.Delivery) int { return column.MessageBytes(&d.Message) - len(d.Data) }

// cut leaves of d what is kept of it, and says in its Fault what it was.
func cut(d *broker.Delivery, most int) {
	rest, sum := rest(d), sha256.Sum256(d.Data)
	d.Fault = &broker.TooLargeError{Bytes: int64(len(d.Data) + rest), Limit: int64(most),
		SHA256: hex.EncodeToString(sum[:])}
	m := &d.Message
	m.Data = bytes.Clone(m.Data[:min(len(m.Data), keptData)]) // a copy: the rest is to be free
	if len(m.Key) > keptData {
		m.Key = nil
	}
	if rest > keptData {
		m.Headers = nil
	}
	for _, text := range []*string{&m.ID, &m.Source, &m.Type, &m.ContentType, &m.Schema, &m.Subject,
		&m.CorrelationID, &m.CausationID, &m.TraceParent} {
		*text = shortlog.Text(*text, keptText)
	}
}
