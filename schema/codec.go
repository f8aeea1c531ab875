package schema

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
)

// Options configures a Codec. The zero value works.
type Options struct {
	Subject string // in the registry. Default: topic and type, such as "payments-payment.processed"
	Place   Place  // where Encode writes the id of the schema. Default InHeader
}

// Codec encodes payloads with the schema of one Go type. It decodes payloads of all schemas that this schema
// can read. It sends requests to the registry before the first write of an event, and before the first read
// of a schema that is not stored; see Registry.Warm. The packages of the languages create codecs.
//
// Decode returns a skald.UnknownVersion error if the registry does not have the id, or if this build cannot
// read the writer's schema. The message is then parked for another build. It returns a skald.Outage error if
// the registry does not answer. If the payload does not match its schema, it returns another error, and the
// message becomes a dead letter.
type Codec struct {
	reg  *Registry
	lang Language
	o    Options
	own  func() (own, error)

	size    atomic.Int64 // the size of the last encoded payload
	written atomic.Pointer[map[event]*written]
	plain   func() (Reader, error)

	mu        sync.Mutex
	readers   atomic.Pointer[map[source]Reader]
	refused   map[source]error // the errors of valid schemas that cannot be read; at most mostRefused
	resolving flights[source, Reader]
}

const mostRefused = 1000

var _ skald.Codec = (*Codec)(nil)

type own struct {
	Schema
	index []int
}

// source identifies the schema with which a payload was written.
type source struct {
	id    ID
	index string
}

// event is a topic and a type. With Options.Subject, all events of a codec use the zero event.
type event struct{ topic, typ string }

// written has the parts that all payloads of an event share.
type written struct {
	header, prefix []byte
	contentType    string
}

// NewCodec returns a codec for a language that uses the registry reg. The packages of the languages call it.
func NewCodec(reg *Registry, lang Language, o *Options) *Codec {
	if o == nil {
		o = &Options{}
	}
	c := &Codec{reg: reg, lang: lang, o: *o, plain: sync.OnceValues(lang.Plain)}
	c.own = sync.OnceValues(func() (own, error) {
		s, index, err := lang.Own()
		return own{s, index}, err
	})
	return c
}

// Encode sets the payload, the content type and the schema id of m.
func (c *Codec) Encode(ctx context.Context, m *skald.Message, v any) error {
	w, err := c.writes(ctx, m.Topic, m.Type, patience)
	if err != nil {
		return err
	}
	hint := c.size.Load()
	data := make([]byte, len(w.prefix), int64(len(w.prefix))+hint+hint/8+16)
	copy(data, w.prefix)
	if data, err = c.lang.Append(data, v); err != nil {
		return fmt.Errorf("encode as %s: %w", c.lang.Name(), err)
	}
	c.size.Store(int64(len(data)))
	m.Data, m.ContentType, m.Headers = data, w.contentType, marked(m.Headers, w.header)
	return nil
}

func (c *Codec) writes(ctx context.Context, topic, typ string, wait time.Duration) (*written, error) {
	of := event{topic, typ}
	if c.o.Subject != "" {
		of = event{}
	}
	if known := c.written.Load(); known != nil && (*known)[of] != nil {
		return (*known)[of], nil
	}
	s, err := c.own()
	if err != nil {
		return nil, err
	}
	subject := c.subject(topic, typ)
	id, err := c.reg.registered(ctx, subject, s.Schema, wait)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", subject, err)
	}
	w := &written{contentType: c.lang.ContentType()}
	if c.o.Place == InPrefix {
		w.prefix, w.contentType = id.mark(InPrefix, s.index), "application/octet-stream"
	} else {
		w.header = id.mark(InHeader, s.index)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	addCopied(&c.written, of, w)
	return w, nil
}

func (c *Codec) subject(topic, typ string) string {
	if c.o.Subject != "" {
		return c.o.Subject
	}
	return topic + "-" + typ
}

// Decode decodes the payload of m into v, which must be a pointer.
func (c *Codec) Decode(ctx context.Context, m skald.Message, v any) error {
	l, err := locate(m, c.lang.Name() == Protobuf)
	if err != nil {
		return fmt.Errorf("decode %s: %w", typeAndID(&m), err)
	}
	r, err := c.reader(ctx, l)
	if err != nil {
		return fmt.Errorf("decode %s: %w", typeAndID(&m), err)
	}
	if err := r.Read(l.data, v); err != nil {
		return fmt.Errorf("decode %s, written with %s: %w", typeAndID(&m), l.name(), err)
	}
	return nil
}

// typeAndID returns the type and the id of m for an error. A message of another program may lack one of them.
func typeAndID(m *skald.Message) string { return strings.TrimSpace(m.Type + " " + m.ID) }

func (l located) name() string {
	if !l.found {
		return "no schema id"
	}
	return "schema " + l.id.String()
}

func (c *Codec) reader(ctx context.Context, l located) (Reader, error) {
	if !l.found {
		r, err := c.plain()
		if err == nil && r == nil {
			err = fmt.Errorf("it has no schema id, neither in the header %s nor as prefix, and cannot be read without a schema id; was it written by "+
				"another serializer?", Header)
		}
		return r, err
	}
	if known := c.readers.Load(); known != nil {
		if r, ok := (*known)[source{l.id, string(l.index)}]; ok {
			return r, nil
		}
	}
	writer, kept, err := c.reg.schema(ctx, l.id, c)
	if err != nil {
		return nil, err
	}
	from := source{l.id, string(l.index)}
	r, err := c.resolving.do(ctx, time.Minute, time.Minute, from,
		func(context.Context) (Reader, error) { return c.resolveOnce(writer, from) })
	if err != nil {
		return nil, err
	}
	if kept { // otherwise the next message tries to store the schema again
		c.mu.Lock()
		defer c.mu.Unlock()
		addCopied(&c.readers, from, r)
	}
	return r, nil
}

// resolveOnce returns a reader for payloads of writer. It caches an error, because comparing two schemas may
// take long.
func (c *Codec) resolveOnce(writer Schema, from source) (Reader, error) {
	c.mu.Lock()
	why := c.refused[from]
	c.mu.Unlock()
	if why != nil {
		return nil, why
	}
	r, err := c.resolve(writer, from.index)
	if err == nil {
		return r, nil
	}
	err = skald.UnknownVersion(fmt.Errorf("schema %v cannot be read by this build: %w", from.id, err))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) >= mostRefused || c.refused == nil {
		c.refused = map[source]error{}
	}
	c.refused[from] = err
	return nil, err
}

// checkSchema returns an error if writer is invalid.
func (c *Codec) checkSchema(writer Schema) error {
	if err := writer.Bounded(); err != nil {
		return err
	}
	_, err := c.lang.Problems(writer, writer)
	return err
}

func (c *Codec) checkFormat(writer Schema) error {
	if writer.Format != c.lang.Name() {
		return fmt.Errorf("it is in %s, and this codec reads %s", writer.Format, c.lang.Name())
	}
	return nil
}

func (c *Codec) resolve(writer Schema, at string) (Reader, error) {
	var index []int
	if writer.Format == Protobuf {
		var err error
		if index, err = readIndex([]byte(at)); err != nil {
			return nil, err
		}
	}
	return c.lang.Reader(writer, index)
}

// addCopied adds an entry to a map. It replaces the map by a copy, because readers use the map without a
// lock.
func addCopied[K comparable, V any](all *atomic.Pointer[map[K]V], key K, v V) {
	next := map[K]V{}
	if known := all.Load(); known != nil {
		next = maps.Clone(*known)
	}
	next[key] = v
	all.Store(&next)
}
