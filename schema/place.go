package schema

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
)

// Header is the name of the message header with the schema id. The name and the format are those of
// Confluent's serializers. The value is a byte 0 and a number of four bytes, or a byte 1 and a GUID of
// sixteen bytes. For Protobuf the index of the message follows.
const Header = "__value_schema_id"

// Place is the place of the schema id. Encode writes to one place, and Decode reads both.
type Place int

// The places.
const (
	InHeader Place = iota // in the header
	InPrefix              // before the payload, for consumers that support only Confluent's older format
)

const (
	byNumber = 0
	byGUID   = 1
	maxIndex = 32 // nesting depth of Protobuf messages
)

// located is a payload with its schema id.
type located struct {
	id    ID
	found bool   // the message has an id
	index []byte // the encoded index of the message; only for Protobuf
	data  []byte // the payload without prefix
}

// locate finds the schema id in the header, or else in the prefix of the payload.
func locate(m skald.Message, indexed bool) (located, error) {
	for i := len(m.Headers) - 1; i >= 0; i-- {
		if m.Headers[i].Name == Header {
			return inHeader(m.Headers[i].Value, m.Data)
		}
	}
	if len(m.Data) < 5 || m.Data[0] != byNumber {
		return located{data: m.Data}, nil
	}
	l := located{id: ID{Number: int32(binary.BigEndian.Uint32(m.Data[1:]))}, found: true, data: m.Data[5:]}
	if indexed {
		n, err := indexLen(l.data)
		if err != nil {
			return l, err
		}
		l.index, l.data = l.data[:n], l.data[n:]
	}
	return l, nil
}

func inHeader(v, data []byte) (located, error) {
	l := located{found: true, data: data}
	switch {
	case len(v) >= 5 && v[0] == byNumber:
		l.id.Number, l.index = int32(binary.BigEndian.Uint32(v[1:])), v[5:]
		return l, nil
	case len(v) >= 17 && v[0] == byGUID && [16]byte(v[1:17]) != [16]byte{}:
		l.id.GUID, l.index = [16]byte(v[1:17]), v[17:]
		return l, nil
	}
	return l, fmt.Errorf(
		"the header %s of %d bytes is neither 0 and a number of four bytes nor 1 and a GUID of sixteen",
		Header, len(v))
}

// mark returns the encoded id for a place.
func (id ID) mark(at Place, index []int) []byte {
	out := []byte{byNumber}
	if at == InHeader && id.GUID != [16]byte{} {
		out = append([]byte{byGUID}, id.GUID[:]...)
	} else {
		out = binary.BigEndian.AppendUint32(out, uint32(id.Number))
	}
	return appendIndex(out, index)
}

// appendIndex appends the index of a message: its length, and then its numbers. A single 0 means the first
// message of a file.
func appendIndex(dst []byte, index []int) []byte {
	switch {
	case index == nil:
		return dst
	case slices.Equal(index, []int{0}):
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(index)))
	for _, n := range index {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return dst
}

func indexLen(b []byte) (int, error) {
	count, at := binary.Varint(b)
	if at <= 0 || count < 0 || count > maxIndex {
		return 0, fmt.Errorf("the index of the message is broken: is the payload in Protobuf, and is its prefix Confluent's?")
	}
	for range count {
		_, n := binary.Varint(b[at:])
		if n <= 0 {
			return 0, fmt.Errorf("the index of the message is cut short")
		}
		at += n
	}
	return at, nil
}

// readIndex decodes an index. If b is empty, it returns the index of the first message, because the header
// may have no index.
func readIndex(b []byte) ([]int, error) {
	if len(b) == 0 {
		return []int{0}, nil
	}
	n, err := indexLen(b)
	if err != nil || n != len(b) {
		return nil, fmt.Errorf("the index of the message is broken")
	}
	count, at := binary.Varint(b)
	if count == 0 {
		return []int{0}, nil
	}
	out := make([]int, count)
	for i := range out {
		v, n := binary.Varint(b[at:])
		if v < 0 || v > 1<<16 {
			return nil, fmt.Errorf("the index of the message is broken")
		}
		out[i], at = int(v), at+n
	}
	return out, nil
}

// marked returns hs with mark as the only schema id. hs may have another id, if a handler copied the headers
// of another message.
func marked(hs []skald.Header, mark []byte) []skald.Header {
	if slices.ContainsFunc(hs, isMark) {
		hs = slices.DeleteFunc(slices.Clone(hs), isMark)
	}
	if mark == nil {
		return hs
	}
	return append(slices.Clip(hs), skald.Header{Name: Header, Value: mark})
}

func isMark(h skald.Header) bool { return h.Name == Header }
