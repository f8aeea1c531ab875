package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Registry finds schemas by id: in memory, then in the consumer's database, then in a schema registry. It is
// safe for concurrent use. The zero value is usable before Connect, so that package variables can declare
// events.
type Registry struct {
	mu       sync.Mutex
	c        *Config
	known    map[ID]*entry
	unknown  map[ID]absence      // ids without a usable schema
	given    map[registration]ID // the ids of schemas of this program
	gate     gate
	lookups  flights[ID, *entry]
	reads    flights[ID, bool]
	sounds   flights[ID, struct{}]
	ids      flights[registration, ID]
	keepings flights[ID, struct{}]
}

// registration is a schema with its subject.
type registration struct{ subject, definition string }

// entry is a schema in memory.
type entry struct {
	Schema
	sound bool      // a codec has parsed the schema
	wrong error     // the error if a codec could not parse the schema
	until time.Time // when an entry that is not sound expires
	kept  bool      // the schema is in the database
	tried time.Time // the last attempt to store the schema
}

// absence records that an id has no usable schema, and the time of the next request.
type absence struct {
	why    error
	until  time.Time
	misses int // failed requests for this id in a row
}

// Config has the arguments of Registry.Connect.
type Config struct {
	// Client is the client of a schema registry with Confluent's API. If it is nil, the Registry reads only
	// schemas from Store, and cannot write payloads.
	Client *sr.Client
	// Store is the consumer's database. The Registry stores in it each schema that was read, so that parked
	// messages and dead letters stay readable without the registry. If Store is nil, they are readable only
	// while the registry has their schemas.
	Store store.PayloadSchemas
	// Name separates the schemas of several registries in one database. If a registry is recreated and
	// assigns its numbers again, change Name.
	Name string
	// Register makes the first write of an event register a missing schema. If it is false, the write fails;
	// register the schema with skald schema push. Default false.
	Register bool
	// Timeout limits a request to the registry. Default 5 s.
	Timeout time.Duration
	Logger  *slog.Logger // default slog.Default()

	server server // Client with limits
}

const (
	tooMuch    = time.Minute            // how long a schema above the limits is cached
	believe    = time.Second            // how long an unknown id or an invalid schema is cached
	mostMisses = 5                      // maximum number of times that the pause for a failing id doubles
	mostAbsent = 1000                   // maximum number of unknown ids in the cache
	readWait   = 200 * time.Millisecond // maximum wait for the database, before the registry is asked
	keepWait   = 100 * time.Millisecond // maximum wait for storing a schema, before decoding anyway
	keepAgain  = time.Second            // minimum time between two attempts to store a schema
)

// ErrNotConnected is returned if Connect was not called.
var ErrNotConnected = errors.New(
	"the schema registry is not connected: call Registry.Connect at the start of the program")

// Connect sets the client and the store. It sends no request. A second call returns an error.
func (r *Registry) Connect(c Config) error {
	if c.Client == nil && c.Store == nil {
		return errors.New("connect a schema registry: neither a client nor a store is given")
	}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Client != nil {
		var err error
		if c.server, err = bounded(c.Client); err != nil {
			return fmt.Errorf("connect a schema registry: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c != nil {
		return errors.New("connect a schema registry: it is connected already")
	}
	r.c, r.known, r.unknown, r.given = &c, map[ID]*entry{}, map[ID]absence{}, map[registration]ID{}
	return nil
}

func (r *Registry) config() (*Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return nil, ErrNotConnected
	}
	return r.c, nil
}

// Declaration is an event with any type of value. skald.Event implements it.
type Declaration interface {
	Declared() (topic, typ string, codec skald.Codec)
}

// Warm requests the schema ids of events, so that no transaction waits for the registry later. It waits at
// most Config.Timeout for each event, while Encode waits at most one second. Warm skips events without a
// schema.
func (r *Registry) Warm(ctx context.Context, events ...Declaration) error {
	config, err := r.config()
	if err != nil {
		return err
	}
	for _, e := range events {
		topic, typ, codec := e.Declared()
		if c, ok := codec.(*Codec); ok && c.reg == r {
			if _, err := c.writes(ctx, topic, typ, config.Timeout); err != nil {
				return err
			}
		}
	}
	return nil
}

// Schema returns the schema with an id. It returns a skald.UnknownVersion error if the id is unknown. It
// returns a skald.Outage error if the schema is not stored and the registry does not answer.
func (r *Registry) Schema(ctx context.Context, id ID) (Schema, error) {
	s, _, err := r.schema(ctx, id, nil)
	return s, err
}

// schema returns a schema that the codec can parse. If the codec cannot parse an answer, the answer is not
// stored and expires soon, because a proxy may have sent it.
func (r *Registry) schema(ctx context.Context, id ID, codec *Codec) (s Schema, kept bool, err error) {
	c, err := r.config()
	if err != nil {
		return s, false, err
	}
	e, absent := r.look(id)
	switch {
	case e == nil && absent != nil:
		return s, false, absent
	case e == nil:
		if e, err = r.find(ctx, c, id, codec); err != nil {
			return s, false, err
		}
	}
	if codec == nil {
		return e.Schema, false, nil
	}
	if err := codec.checkFormat(e.Schema); err != nil {
		return s, false, unreadable(id, err)
	}
	if !r.isSound(e) {
		if _, err := r.sounds.do(ctx, c.Timeout, c.Timeout, id, func(context.Context) (struct{}, error) {
			return struct{}{}, r.examine(id, e, codec)
		}); err != nil {
			return s, false, err
		}
	}
	return e.Schema, r.keep(ctx, c, id, e), nil
}

func unreadable(id ID, err error) error {
	return skald.UnknownVersion(fmt.Errorf("schema %v cannot be read by this build: %w", id, err))
}

// examine parses a schema once, and records the result.
func (r *Registry) examine(id ID, e *entry, by *Codec) error {
	r.mu.Lock()
	sound, wrong := e.sound, e.wrong
	r.mu.Unlock()
	if sound || wrong != nil {
		return wrong
	}
	err := by.checkSchema(e.Schema)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		e.sound = true
		return nil
	}
	e.wrong = unreadable(id, err)
	if limit := new(LimitError); errors.As(err, &limit) {
		e.until = time.Now().Add(tooMuch)
	}
	return e.wrong
}

func (r *Registry) look(id ID) (e *entry, absent error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if e = r.known[id]; e != nil && (e.sound || now.Before(e.until)) {
		return e, nil
	}
	if is, missed := r.unknown[id]; missed && now.Before(is.until) {
		return nil, is.why
	}
	return nil, nil
}

func (r *Registry) isSound(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.sound
}

func unknownID(id ID) error {
	hint := ""
	if id.GUID != [16]byte{} {
		hint = ", or cannot look up GUIDs"
	}
	return skald.UnknownVersion(fmt.Errorf(
		"the registry does not have schema %v%s: was it deleted, or is this another registry?", id, hint))
}

// find reads a schema from the database, or else from the registry.
func (r *Registry) find(ctx context.Context, c *Config, id ID, by *Codec) (*entry, error) {
	if c.Store != nil {
		kept, err := r.read(ctx, c, id, by)
		if e, _ := r.look(id); kept && e != nil {
			return e, nil
		}
		switch {
		case c.Client == nil && err != nil:
			return nil, skald.Outage(fmt.Errorf("read schema %v in the database: %w", id, err))
		case c.Client == nil:
			return nil,
				skald.UnknownVersion(fmt.Errorf("schema %v is not stored, and Config.Client is nil", id))
		}
	}
	return r.lookUp(ctx, c, id)
}

// lookUp sends a request to the registry, and waits at most patience. A slower request continues, and later
// messages use its answer.
func (r *Registry) lookUp(ctx context.Context, c *Config, id ID) (*entry, error) {
	if err := r.gate.closed(); err != nil {
		return nil, err
	}
	e, err := r.lookups.do(ctx, c.Timeout, patience, id, func(ctx context.Context) (*entry, error) {
		s, err := ask(r, c, func(to server) (Schema, error) { return to.byID(ctx, id) })
		if away := new(skald.OutageError); errors.As(err, &away) {
			return nil, err // lookUp has not sent a request
		}
		if err != nil {
			return nil, r.missed(id, err)
		}
		return r.learn(id, &entry{Schema: s, kept: c.Store == nil}), nil
	})
	if errors.Is(err, errSilent) {
		r.gate.silent()
	}
	return e, err
}

// learn adds a schema to the memory and returns its entry. If there is a sound entry already, it returns that
// one.
func (r *Registry) learn(id ID, e *entry) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if was := r.known[id]; was != nil && (was.sound || now.Before(was.until)) {
		return was
	}
	e.until = now.Add(believe)
	r.known[id] = e
	return e
}

// read reads a stored schema into memory. It returns found=false if the store does not have the schema. It
// waits only readWait, because handlers that wait for it may use all connections. A later message uses a
// later answer. If the codec cannot parse the stored schema, the schema is used only if there is no
// registry.
func (r *Registry) read(ctx context.Context, c *Config, id ID, codec *Codec) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	return r.reads.do(ctx, c.Timeout, c.Timeout, id, func(ctx context.Context) (bool, error) {
		s, found, err := c.kept(ctx, id)
		if err != nil {
			c.Logger.Warn("cannot read the stored schemas; asking the registry", "schema",
				id.String(), "error", err)
		}
		if found && c.Client != nil && codec != nil && codec.checkFormat(s) == nil &&
			codec.checkSchema(s) != nil {
			return false, nil
		}
		if found {
			r.learn(id, &entry{Schema: s, kept: true})
		}
		return found, err
	})
}

// missed records that an id has no schema, and the time of the next request. The pause doubles with each
// failure, so that one failing id does not use all requests that the gate admits.
func (r *Registry) missed(id ID, err error) error {
	var limit *LimitError
	var part *referenceError
	why, known := skald.Outage(fmt.Errorf("ask the registry for schema %v: %w", id, err)), true
	switch {
	case errors.As(err, &limit):
		why = skald.UnknownVersion(fmt.Errorf("schema %v: %w", id, err))
	case !errors.Is(err, errNoSchema):
		known = false
	case errors.As(err, &part):
		why = skald.UnknownVersion(fmt.Errorf("the registry does not have all of schema %v: %w", id, part))
	default:
		why = unknownID(id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unknown) >= mostAbsent {
		clear(r.unknown)
	}
	one := absence{why: why, until: time.Now().Add(believe)}
	if !known {
		one.misses = min(r.unknown[id].misses+1, mostMisses)
		one.until = time.Now().Add(believe << (one.misses - 1))
	}
	r.unknown[id] = one
	return why
}

func (c *Config) kept(ctx context.Context, id ID) (s Schema, there bool, err error) {
	text, err := c.Store.PayloadSchema(ctx, c.Name, id.String())
	if err != nil {
		return s, false, err
	}
	return defined(id, text)
}

// keep stores a schema in a separate transaction, because the transaction of the handler may roll back. keep
// waits at most keepWait. On SQLite the write succeeds only after the transaction of the handler has ended.
func (r *Registry) keep(ctx context.Context, c *Config, id ID, e *entry) (kept bool) {
	r.mu.Lock()
	now := time.Now()
	if e.kept || now.Sub(e.tried) < keepAgain {
		defer r.mu.Unlock()
		return e.kept
	}
	e.tried = now
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	_, err := r.keepings.do(ctx, c.Timeout, c.Timeout, id, func(ctx context.Context) (struct{}, error) {
		err := c.Store.KeepPayloadSchema(ctx, c.Name, id.String(), e.definition())
		if err != nil {
			c.Logger.Warn("cannot store a schema; retrying with the next message that needs it",
				"schema", id.String(), "error", err)
			return struct{}{}, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		e.kept = true
		return struct{}{}, nil
	})
	return err == nil
}

// registered returns the id that the registry has for a schema under a subject.
func (r *Registry) registered(ctx context.Context, subject string, s Schema, wait time.Duration) (ID, error) {
	c, err := r.config()
	if err != nil {
		return ID{}, err
	}
	if c.Client == nil {
		return ID{}, errors.New("there is no registry to ask for its id: Config.Client is nil")
	}
	one := registration{subject, s.definition()}
	if id, known := r.idOf(one); known {
		return id, nil
	}
	if err := r.gate.closed(); err != nil {
		return ID{}, err
	}
	id, err := r.ids.do(ctx, c.Timeout, wait, one,
		func(ctx context.Context) (ID, error) { return r.askForID(ctx, c, one, s) })
	if errors.Is(err, errSilent) {
		r.gate.silent()
	}
	return id, err
}

func (r *Registry) askForID(ctx context.Context, c *Config, one registration, s Schema) (ID, error) {
	id, err := ask(r, c, func(to server) (ID, error) {
		id, err := to.registered(ctx, one.subject, s)
		if errors.Is(err, errNoSchema) && c.Register {
			id, err = to.register(ctx, one.subject, s)
		}
		return id, err
	})
	var away *skald.OutageError
	switch {
	case err == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.given[one] = id
		return id, nil
	case errors.Is(err, errNoSchema):
		return ID{}, errors.New("it is not registered: run: skald schema push --lock FILE --registry URL")
	case refused(err):
		return ID{}, fmt.Errorf("the registry refuses it: %w", err)
	case errors.As(err, &away):
		return ID{}, err
	}
	return ID{}, skald.Outage(fmt.Errorf("ask the registry: %w", err))
}

func (r *Registry) idOf(one registration) (id ID, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known = r.given[one]
	return id, known
}
