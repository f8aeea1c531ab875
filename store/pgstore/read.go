package pgstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/skald-go/skald/store"
)

const (
	bucketOf = `coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s))::integer`
	rowColumns = `o.seq, ` + bucketOf + ` AS bucket, o.id, o.time, o.source, o.topic, o.type, o.content_type, o.schema, o.subject,
	o.correlation_id, o.causation_id, o.traceparent, o.headers::text AS headers, o.key, o.key_bytes, o.data, o.data_bytes`
	bucketFilter = `AND get_bit((SELECT $bits::text::bit(1024)), ` + bucketOf + `) = 1`

	columnCount = 18
)

// A reader reads rows of Pull. It reads what the server sent, in text or binary: Scan would take twice as long.
type reader struct {
	fields  [columnCount]bool // binary
	kinds   *pgtype.Map
	started bool

	source, topic, kind, contentType, schema string // of the row before: most are the same

	slab []byte // what keys and payloads are copied into: one piece of memory for many
}

func (r *reader) read(row scanner, out *store.Row) error {
	rows, ok := row.(pgx.Rows)
	if !ok {
		return scanRow(row, out)
	}
	if !r.started {
		r.started = true
		for i, f := range rows.FieldDescriptions() {
			if i < columnCount {
				r.fields[i] = f.Format == pgx.BinaryFormatCode
			}
		}
		r.kinds = rows.Conn().TypeMap()
	}
	v := rows.RawValues()
	if len(v) != columnCount {
		return fmt.Errorf("a row of %d columns", len(v))
	}
	return r.raw(v, out)
}

func (r *reader) raw(v [][]byte, out *store.Row) (err error) {
	var n int64
	if out.Seq, err = r.integer(0, v); err == nil {
		n, err = r.integer(1, v)
	}
	if err != nil {
		return fmt.Errorf("read row: %w", err)
	}
	out.Bucket, out.ID = int(n), uuidText(v[2])
	if out.Time, err = r.time(v[3]); err != nil {
		return fmt.Errorf("read row %d: %w", out.Seq, err)
	}
	out.Source, out.Topic, out.Type = same(&r.source, v[4]), same(&r.topic, v[5]), same(&r.kind, v[6])
	out.ContentType, out.Schema = same(&r.contentType, v[7]), same(&r.schema, v[8])
	out.Subject, out.CausationID, out.TraceParent = string(v[9]), string(v[11]), string(v[12])
	out.CorrelationID = out.ID // of the first message of a process
	same(&out.CorrelationID, v[10])
	if out.Headers, err = parseHeaders(v[13]); err != nil {
		return fmt.Errorf("read row %d: %w", out.Seq, err)
	}
	if out.Key, err = r.either(14, v); err == nil {
		out.Data, err = r.either(16, v)
	}
	if err != nil {
		return fmt.Errorf("read row %d: %w", out.Seq, err)
	}
	return nil
}

// same is b as a string, the one before if it is equal.
func same(before *string, b []byte) string {
	if *before != string(b) {
		*before = string(b)
	}
	return *before
}

func (r *reader) integer(i int, v [][]byte) (int64, error) {
	switch b := v[i]; {
	case !r.fields[i]:
		return strconv.ParseInt(string(b), 10, 64)
	case len(b) == 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	case len(b) == 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	}
	return 0, fmt.Errorf("column %d is no integer", i)
}

// epoch of PostgreSQL: 2000-01-01, in microseconds of Unix.
const epoch = 946_684_800_000_000

func (r *reader) time(b []byte) (time.Time, error) {
	if r.fields[3] && len(b) == 8 {
		return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + epoch).UTC(), nil
	}
	var at time.Time
	err := r.kinds.Scan(pgtype.TimestamptzOID, pgx.TextFormatCode, b, &at)
	return at.UTC(), err
}

// either is the text column i, or the bytea column behind it: a copy.
func (r *reader) either(i int, v [][]byte) ([]byte, error) {
	switch text, b := v[i], v[i+1]; {
	case text != nil:
		return r.keep(text), nil
	case b == nil:
		return nil, nil
	case r.fields[i+1]:
		return r.keep(b), nil
	case len(b) < 2 || b[0] != '\\' || b[1] != 'x':
		return nil, fmt.Errorf("column %d: bytea_output is not hex", i+1)
	default:
		out := make([]byte, hex.DecodedLen(len(b)-2))
		_, err := hex.Decode(out, b[2:])
		return out, err
	}
}

const (
	slab     = 32 << 10
	slabMost = slab / 8 // larger ones have memory of their own
)

// keep is a copy of b, not nil.
func (r *reader) keep(b []byte) []byte {
	if len(b) > slabMost {
		return append([]byte{}, b...)
	}
	if cap(r.slab)-len(r.slab) < len(b) || r.slab == nil {
		r.slab = make([]byte, 0, slab)
	}
	at := len(r.slab)
	r.slab = append(r.slab, b...)
	return r.slab[at:len(r.slab):len(r.slab)]
}

func uuidText(b []byte) string {
	if len(b) != 16 {
		return string(b)
	}
	var t [36]byte
	at := 0
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			t[at] = '-'
			at++
		}
		at += hex.Encode(t[at:], part)
	}
	return string(t[:])
}

// scanRow reads a row through Scan, as database/sql has it.
func scanRow(row scanner, out *store.Row) error {
	var schema, subject, correlation, cause, trace, headers, key, data *string
	var keyBytes, dataBytes []byte
	err := row.Scan(&out.Seq, &out.Bucket, &out.ID, &out.Time, &out.Source, &out.Topic, &out.Type, &out.ContentType, &schema, &subject,
		&correlation, &cause, &trace, &headers, &key, &keyBytes, &data, &dataBytes)
	if err != nil {
		return fmt.Errorf("read row: %w", err)
	}
	out.Time = out.Time.UTC()
	out.Schema, out.Subject, out.CorrelationID, out.CausationID, out.TraceParent = or(schema), or(subject), or(correlation), or(cause), or(trace)
	if out.Headers, err = parseHeaders([]byte(or(headers))); err != nil {
		return fmt.Errorf("read row %d: %w", out.Seq, err)
	}
	out.Key, out.Data = keyBytes, dataBytes
	if key != nil {
		out.Key = []byte(*key)
	}
	if data != nil {
		out.Data = []byte(*data)
	}
	return nil
}
