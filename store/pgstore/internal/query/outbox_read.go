package query

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	bucketOf = `coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s))::integer`
	bucketFilter = `AND get_bit((SELECT $bits::text::bit(1024)), ` + bucketOf + `) = 1`

	fewColumns = `o.seq, ` + bucketOf +
		` AS bucket, o.id, o.time, o.source, o.topic, o.type, o.content_type, o.schema, o.subject,
	o.correlation_id, o.causation_id, o.traceparent, o.key, o.key_bytes, o.data, o.data_bytes`
	// rawColumns does not return headers of more than 64 KiB as text, because compressed data may become very
	// large. Headers within the limits of the outbox are smaller.
	rawColumns = fewColumns + `, CASE WHEN pg_column_size(o.headers) <= 65536 THEN o.headers::text END AS headers, ` +
		rawSize + ` AS size`
	lightRaw = fewColumns + `, o.headers, ` + rawSize + ` <= $5::bigint AS light`
	rawSize  = rowSize + ` + CASE WHEN pg_column_size(o.headers) > 65536 THEN /*rowbytes*/
		ELSE coalesce(pg_column_size(o.headers), 0) END`
	rowSize = `octet_length(o.source)::bigint + octet_length(o.topic) + octet_length(o.type) + octet_length(o.content_type)
	+ coalesce(octet_length(o.schema), 0) + coalesce(octet_length(o.subject), 0) + coalesce(octet_length(o.correlation_id), 0)
	+ coalesce(octet_length(o.causation_id), 0) + coalesce(octet_length(o.traceparent), 0) + coalesce(octet_length(o.key), 0)
	+ coalesce(octet_length(o.key_bytes), 0) + coalesce(octet_length(o.data), 0) + coalesce(octet_length(o.data_bytes), 0)`
	// upto is the number of bytes of the page up to and including this row. last reports whether this row is
	// the last of the page if the page has no limit of bytes.
	upto       = `sum(CASE WHEN w.size <= /*rowbytes*/ THEN w.size::integer ELSE 0 END) OVER p AS upto, lead(w.seq) OVER p IS NULL AS last`
	rowColumns = `o.seq, o.bucket, o.id, o.time, /*left*/o.source, /*left*/o.topic, /*none*/o.type, /*none*/o.content_type, /*whole*/o.schema, /*whole*/o.subject,
	/*whole*/o.correlation_id, /*whole*/o.causation_id, /*whole*/o.traceparent, o.headers,
	CASE WHEN o.size <= /*rowbytes*/ OR octet_length(o.key) <= 1024 THEN o.key END AS key,
	CASE WHEN o.size <= /*rowbytes*/ OR octet_length(o.key_bytes) <= 1024 THEN o.key_bytes END AS key_bytes,
	/*whole*/o.data, /*whole*/o.data_bytes, CASE WHEN o.size > /*rowbytes*/ THEN o.size END AS large,
	CASE WHEN o.size > /*rowbytes*/ THEN coalesce(encode(sha256(coalesce(o.data_bytes, convert_to(o.data, 'UTF8'))), 'hex'), '') END AS hash, o.last`

	// lightColumns are rowColumns for PullLight. A row that is too heavy for PullLight has large set and no
	// content.
	lightColumns = `o.seq, o.bucket, o.id, o.time, /*textlight*/o.source, /*textlight*/o.topic, /*textlight*/o.type, /*textlight*/o.content_type,
	/*light*/o.schema, /*light*/o.subject, /*light*/o.correlation_id, /*light*/o.causation_id, /*light*/o.traceparent,
	CASE WHEN o.light THEN o.headers::text END AS headers, /*light*/o.key, /*light*/o.key_bytes, /*light*/o.data, /*light*/o.data_bytes,
	CASE WHEN NOT o.light THEN 0::bigint END AS large, NULL::text AS hash, false AS last`

	columnCount = 21
)

// bounded completes a statement with the limits of a read in bytes. It replaces the markers before columns,
// such as /*whole*/, by expressions that omit or cut the column of a row above the limits.
func bounded(sql string) string {
	sql = regexp.MustCompile(`/\*left\*/o\.(\w+)`).ReplaceAllString(sql,
		`CASE WHEN o.size <= /*rowbytes*/ THEN o.$1 ELSE left(o.$1, 256) END AS $1`)
	sql = regexp.MustCompile(`/\*none\*/o\.(\w+)`).ReplaceAllString(sql,
		`CASE WHEN o.size <= /*rowbytes*/ THEN o.$1 ELSE '' END AS $1`)
	sql = regexp.MustCompile(`/\*whole\*/o\.(\w+)`).ReplaceAllString(sql,
		`CASE WHEN o.size <= /*rowbytes*/ THEN o.$1 END AS $1`)
	sql = regexp.MustCompile(`/\*textlight\*/o\.(\w+)`).ReplaceAllString(sql,
		`CASE WHEN o.light THEN o.$1 ELSE '' END AS $1`)
	sql = regexp.MustCompile(`/\*light\*/o\.(\w+)`).ReplaceAllString(sql,
		`CASE WHEN o.light THEN o.$1 END AS $1`)
	return strings.NewReplacer("/*rowbytes*/", strconv.Itoa(store.RowBytes), "/*pagebytes*/",
		strconv.Itoa(store.PageBytes)).Replace(sql)
}

// reader parses rows of the outbox from the bytes of the server, in text or binary format. It does so because
// Scan takes twice as long.
type reader struct {
	fields  [columnCount]bool // true for columns in binary format
	kinds   *pgtype.Map
	started bool
	last    bool // the last row was the last of the page

	source, topic, kind, contentType, schema string // of the previous row, because most are equal

	slab []byte // one block of memory for many keys and payloads
}

func (r *reader) read(row sqlexec.Scanner, out *store.Row) error {
	rows, ok := row.(pgx.Rows)
	if !ok {
		return scanRow(row, out, &r.last)
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
	if v[18] != nil {
		if n, err = r.integer(18, v); err != nil {
			return fmt.Errorf("read row %d: %w", out.Seq, err)
		}
		out.Large = &store.Large{Bytes: n, SHA256: string(v[19])}
	}
	r.last = len(v[20]) == 1 && (v[20][0] == 1 || v[20][0] == 't')
	out.Source, out.Topic, out.Type = reuse(&r.source, v[4]), reuse(&r.topic, v[5]), reuse(&r.kind, v[6])
	out.ContentType, out.Schema = reuse(&r.contentType, v[7]), reuse(&r.schema, v[8])
	out.Subject, out.CausationID, out.TraceParent = string(v[9]), string(v[11]), string(v[12])
	out.CorrelationID = out.ID // for a row without a correlation ID: the first message of its process
	reuse(&out.CorrelationID, v[10])
	if out.Key, err = r.textOrBlob(14, v); err != nil { // without its key, the row cannot even be deferred
		return fmt.Errorf("read row %d: %w", out.Seq, err)
	}
	if err = r.content(v, out); out.Large == nil { // a large row has no content that could be wrong
		out.Fault = sqlexec.Fault(err)
	}
	return nil
}

// content reads the other fields. If it fails, the relay can still defer the row.
func (r *reader) content(v [][]byte, out *store.Row) (err error) {
	if out.Time, err = r.time(v[3]); err != nil {
		return err
	}
	if out.Headers, err = parseHeaders(v[13]); err != nil {
		return err
	}
	out.Data, err = r.textOrBlob(16, v)
	return err
}

// reuse returns b as a string. If the string last is equal, reuse returns that string, to save memory.
func reuse(last *string, b []byte) string {
	if *last != string(b) {
		*last = string(b)
	}
	return *last
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
	return 0, fmt.Errorf("column %d is not an integer", i)
}

// epoch is the start of PostgreSQL's time, 2000-01-01, in microseconds of Unix time.
const epoch = 946_684_800_000_000

func (r *reader) time(b []byte) (time.Time, error) {
	if r.fields[3] && len(b) == 8 {
		n := int64(binary.BigEndian.Uint64(b))
		if n == math.MinInt64 || n > math.MaxInt64-epoch {
			// infinity, or too large for Unix time
			return time.Time{}, errors.New("its time is infinite")
		}
		at := time.UnixMicro(n + epoch).UTC()
		return at, sqlexec.CheckRFC3339(at)
	}
	var at pgtype.Timestamptz
	if err := r.kinds.Scan(pgtype.TimestamptzOID, pgx.TextFormatCode, b, &at); err != nil {
		return time.Time{}, err
	}
	if at.InfinityModifier != pgtype.Finite {
		return time.Time{}, errors.New("its time is infinite")
	}
	return at.Time.UTC(), sqlexec.CheckRFC3339(at.Time.UTC())
}

// textOrBlob returns a copy of the text column i, or of the bytea column after column i.
func (r *reader) textOrBlob(i int, v [][]byte) ([]byte, error) {
	switch text, b := v[i], v[i+1]; {
	case text != nil:
		return r.cloneBytes(text), nil
	case b == nil:
		return nil, nil
	case r.fields[i+1]:
		return r.cloneBytes(b), nil
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
	slabMost = slab / 8 // a larger value gets its own memory
)

// cloneBytes returns a copy of b, never nil.
func (r *reader) cloneBytes(b []byte) []byte {
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

// scanRow reads a row through Scan, for database/sql.
func scanRow(row sqlexec.Scanner, out *store.Row, last *bool) error {
	var large *int64
	var hash *string
	var schema, subject, correlation, cause, trace, headers, key, data *string
	var keyBytes, dataBytes []byte
	var at sqlexec.Instant
	err := row.Scan(&out.Seq, &out.Bucket, &out.ID, &at, &out.Source, &out.Topic, &out.Type, &out.ContentType,
		&schema, &subject,
		&correlation, &cause, &trace, &headers, &key, &keyBytes, &data, &dataBytes, &large, &hash, last)
	if err != nil {
		return fmt.Errorf("read row: %w", err)
	}
	out.Schema, out.Subject, out.CorrelationID, out.CausationID, out.TraceParent = sqlexec.OrEmpty(schema),
		sqlexec.OrEmpty(subject), sqlexec.OrEmpty(correlation), sqlexec.OrEmpty(cause), sqlexec.OrEmpty(trace)
	out.Time, err = at.Read()
	if err == nil {
		out.Headers, err = parseHeaders([]byte(sqlexec.OrEmpty(headers)))
	}
	if large != nil {
		out.Large = &store.Large{Bytes: *large, SHA256: sqlexec.OrEmpty(hash)}
	} else {
		out.Fault = sqlexec.Fault(err)
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
