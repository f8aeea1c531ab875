package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Row has a message as columns of the outbox, in the order of InsertRow. It shares no memory with the
// message, because the caller may change the message before the row is sent.
type Row struct {
	topic, key, kind   *string
	data               *string
	dataBytes, keyByte []byte
	contentType        *string
	schema, subject    *string
	correlation, cause *string
	trace, headers     *string
	time               *time.Time
	id                 *string
	bucket             *int16
}

// Rows converts messages to rows.
func Rows(ms []skald.Message) ([]Row, error) {
	out := make([]Row, len(ms))
	for i := range ms {
		if err := out[i].set(&ms[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Row) set(m *skald.Message) error {
	*r = Row{
		topic: &m.Topic, kind: &m.Type, contentType: &m.ContentType, schema: sqlexec.Some(m.Schema),
		subject:     sqlexec.Some(m.Subject),
		correlation: sqlexec.Some(sqlexec.StorableText(m.CorrelationID)),
		cause:       sqlexec.Some(sqlexec.StorableText(m.CausationID)),
		trace:       sqlexec.Some(sqlexec.StorableText(m.TraceParent)),
	}
	r.detach()
	if m.ID != "" {
		if _, ok := uuid7.Parse(m.ID); !ok {
			return &store.LimitError{Topic: m.Topic, Type: m.Type,
				What: fmt.Sprintf("the id %.40q is no UUID", m.ID)}
		}
		id := m.ID
		r.id = &id
		if complete.Limits(m) == nil { // the table does not check the limits of a row with a bucket again
			n := int16(column.Bucket(m))
			r.bucket = &n
		}
	}
	if !m.Time.IsZero() {
		at := m.Time
		r.time = &at
	}
	if m.Key != nil {
		r.key, r.keyByte = textOrBytes(m.Key, true)
	}
	if m.Data != nil {
		r.data, r.dataBytes = textOrBytes(m.Data, isText(m.ContentType))
	}
	if len(m.Headers) > 0 {
		text := string(headersJSON(m.Headers))
		r.headers = &text
	}
	return nil
}

// detach makes the row independent of fields of the message that the row points to.
func (r *Row) detach() {
	topic, kind, ct := *r.topic, *r.kind, *r.contentType
	r.topic, r.kind, r.contentType = &topic, &kind, &ct
}

// textOrBytes returns b for the text column if text is true and b is valid text. Otherwise it returns a copy
// of b for the bytea column.
func textOrBytes(b []byte, text bool) (*string, []byte) {
	if s := string(b); text && sqlexec.Storable(s) {
		return &s, nil
	}
	return nil, append([]byte{}, b...)
}

// isText reports whether the outbox stores a payload of that content type as text.
func isText(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasSuffix(media, "+json") ||
		strings.HasPrefix(media, "text/")
}

// headersJSON encodes headers as [[name, base64], …].
func headersJSON(hs []skald.Header) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, h := range hs {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(h.Name) // cannot fail for a string
		fmt.Fprintf(&b, `[%s,"%s"]`, name, base64.StdEncoding.EncodeToString(h.Value))
	}
	b.WriteByte(']')
	return b.Bytes()
}

// parseHeaders decodes the text of headersJSON.
func parseHeaders(text []byte) ([]skald.Header, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal(text, &pairs); err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	out := make([]skald.Header, len(pairs))
	for i, p := range pairs {
		value, err := base64.StdEncoding.DecodeString(p[1])
		if err != nil {
			return nil, fmt.Errorf("read header %s: %w", p[0], err)
		}
		out[i] = skald.Header{Name: p[0], Value: value}
	}
	return out, nil
}

// Insert returns the call that writes one or more rows. A usual row has only JSON and a text key. For usual
// rows it uses a statement with fewer parameters, because each parameter costs time.
func (o *Outbox) Insert(rows []Row) sqlexec.Call {
	usual := true
	for i := range rows {
		usual = usual && rows[i].usual()
	}
	r := &rows[0]
	switch {
	case usual && len(rows) <= UsualMost:
		return o.pg.Call(insertUsual(len(rows)), usualArgs(rows)...)
	case len(rows) == 1:
		return o.pg.Call("InsertRow", sqlexec.Given(r.topic), sqlexec.Given(r.key), sqlexec.Given(r.kind),
			sqlexec.Given(r.data), r.dataBytes, r.keyByte, sqlexec.Given(r.contentType),
			sqlexec.Given(r.schema), sqlexec.Given(r.subject), sqlexec.Given(r.correlation),
			sqlexec.Given(r.cause), sqlexec.Given(r.trace), sqlexec.Given(r.headers), sqlexec.Given(r.time),
			sqlexec.Given(r.id), sqlexec.Given(r.bucket))
	}
	text := func(of func(*Row) *string) []string {
		return each(rows, func(r *Row) string { return orNone(of(r), o.none) })
	}
	topics, keys := text(func(r *Row) *string { return r.topic }), text(func(r *Row) *string { return r.key })
	kinds, data := text(func(r *Row) *string { return r.kind }), text(func(r *Row) *string { return r.data })
	correlations, causes := text(func(r *Row) *string { return r.correlation }),
		text(func(r *Row) *string { return r.cause })
	traces, ids := text(func(r *Row) *string { return r.trace }), text(func(r *Row) *string { return r.id })
	buckets := each(rows, func(r *Row) int16 {
		if r.bucket == nil {
			return -1
		}
		return *r.bucket
	})
	if usual {
		times := each(rows, func(r *Row) time.Time { return *r.time })
		return o.pg.Call("InsertManyUsual", topics, keys, kinds, data, correlations, causes, traces, times,
			ids, buckets, o.none)
	}
	blob := func(of func(*Row) []byte) [][]byte {
		return each(rows, func(r *Row) []byte {
			if b := of(r); b != nil {
				return b
			}
			return []byte(o.none)
		})
	}
	times := text(func(r *Row) *string {
		if r.time == nil {
			return nil
		}
		at := r.time.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
		return &at
	})
	return o.pg.Call("InsertRows", topics, keys, kinds, data,
		blob(func(r *Row) []byte { return r.dataBytes }), blob(func(r *Row) []byte { return r.keyByte }),
		text(func(r *Row) *string { return r.contentType }), text(func(r *Row) *string { return r.schema }),
		text(func(r *Row) *string { return r.subject }), correlations, causes, traces,
		text(func(r *Row) *string { return r.headers }), times, ids, buckets, o.none)
}

// orNone returns the value of p. If p is nil, it returns placeholder, a random text that no row has.
// Statements convert this text to NULL. With array_nulls off an array cannot contain NULL, and Skald must
// not change that setting in a transaction of the caller.
func orNone(p *string, placeholder string) string {
	if p == nil {
		return placeholder
	}
	return *p
}

// usual reports whether InsertUsual can write the row.
func (r *Row) usual() bool {
	return r.id != nil && r.time != nil && *r.contentType == UsualType && r.dataBytes == nil &&
		r.keyByte == nil &&
		r.schema == nil && r.subject == nil && r.headers == nil
}

const (
	UsualType = "application/json" // the default of the column

	// UsualMost is the maximum number of rows in one VALUES list. Each number of rows has its own statement.
	// From 16 rows on, array arguments are equally fast.
	UsualMost    = 10
	usualColumns = 10
)

// insertUsual returns the name of the statement for n usual rows.
func insertUsual(n int) string {
	if n == 1 {
		return "InsertUsual"
	}
	return "InsertUsual" + strconv.Itoa(n)
}

// outboxLists adds the statements of insertUsual for several rows.
func outboxLists(raw map[string]string) {
	head, one, _ := strings.Cut(raw["InsertUsual"], "VALUES ")
	text := head + "VALUES " + one
	for n := 2; n <= UsualMost; n++ {
		text += ",\n" + shifted(one, (n-1)*usualColumns)
		raw[insertUsual(n)] = text
	}
}

// shifted adds n to the numbers of the parameters in text.
func shifted(text string, n int) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "$") {
		if i == 0 {
			b.WriteString(part)
			continue
		}
		digits := len(part) - len(strings.TrimLeft(part, "0123456789"))
		at, _ := strconv.Atoi(part[:digits]) // TestStatements prepares the result
		fmt.Fprintf(&b, "$%d%s", at+n, part[digits:])
	}
	return b.String()
}

// usualArgs returns the arguments of insertUsual.
func usualArgs(rows []Row) []any {
	out := make([]any, 0, usualColumns*len(rows))
	for i := range rows {
		r := &rows[i]
		out = append(out, sqlexec.Given(r.topic), sqlexec.Given(r.key), sqlexec.Given(r.kind),
			sqlexec.Given(r.data), sqlexec.Given(r.correlation), sqlexec.Given(r.cause),
			sqlexec.Given(r.trace), sqlexec.Given(r.time), sqlexec.Given(r.id), sqlexec.Given(r.bucket))
	}
	return out
}

func each[T any](rows []Row, of func(*Row) T) []T {
	out := make([]T, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}
