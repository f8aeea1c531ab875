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

// Registry finds schemas by id: in memory, then in the consumer's database, then in a schema registry. It
// is safe for concurrent use. The zero value is not connected, so that package variables can declare events
// before Connect.
type Registry struct {
	mu       sync.Mutex
	c        *Config
	known    map[ID]*entry
	unknown  map[ID]absence      // ids that the registry does not have
	given    map[registration]ID // ids that the registry assigned to schemas of this program
	gate     gate
	lookups  flights[ID, *entry]
	reads    flights[ID, bool]
	sounds   flights[ID, struct{}]
	ids      flights[registration, ID]
	keepings flights[ID, struct{}]
}

// registration is a schema under a subject.
type registration struct{ subject, definition string }

// entry is a schema in memory.
type entry struct {
	Schema
	sound bool      // a codec parsed it successfully
	wrong error     // why a codec of its format could not parse it
	until time.Time // expiry of an entry that is not sound: the answer may not be a schema
	kept  bool      // in the database
	tried time.Time // the last attempt to store it
}

// absence records that no usable schema of an id exists, and until when to trust that.
type absence struct {
	why    error
	until  time.Time
	misses int // consecutive failures of the registry to answer for this id
}

// Config configures Registry.Connect.
type Config struct {
	// Client calls a schema registry with Confluent's API. Nil: the Registry reads only schemas from Store,
	// and cannot write.
	Client *sr.Client
	// Store is the consumer's database. It stores each schema that was read, so that parked messages and
	// dead letters stay readable after the registry is gone. Nil: they are readable while the registry has
	// their schemas.
	Store store.PayloadSchemas
	// Name separates the schemas of several registries in one database. A registry that was recreated and
	// assigns its numbers again needs a new name.
	Name string
	// Register registers a missing schema on its first write. Default false: the write fails, and skald
	// schema push registers the schema.
	Register bool
	// Timeout limits a request to the registry. Default 5 s.
	Timeout time.Duration
	Logger  *slog.Logger // default slog.Default()

	server server // Client, bounded
}

const (
	tooMuch    = time.Minute            // until a schema above the limits is examined again
	believe    = time.Second            // how long an unknown id or an invalid schema is cached
	mostMisses = 5                      // doublings of the time until a failing id is requested again
	mostAbsent = 1000                   // unknown ids in the cache
	readWait   = 200 * time.Millisecond // for a stored schema, before the registry is asked
	keepWait   = 100 * time.Millisecond // for a schema to be stored, before its payload is decoded anyway
	keepAgain  = time.Second            // between two attempts to store a schema
)

// ErrNotConnected means that Connect was not called.
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

// Declaration is an event of any type. skald.Event implements it.
type Declaration interface {
	Declared() (topic, typ string, codec skald.Codec)
}

// Warm requests the ids of the schemas of events, so that no later transaction waits for the registry. It
// waits up to Config.Timeout for each event; Encode waits one second. Warm skips events without a schema.
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

// Schema returns the schema of an id. It fails with skald.UnknownVersion if no source has the id, and with
// skald.Outage if only the registry could have it and does not answer.
func (r *Registry) Schema(ctx context.Context, id ID) (Schema, error) {
	s, _, err := r.schema(ctx, id, nil)
	return s, err
}

// schema returns a schema that by can parse. A schema that by cannot parse is not stored and soon expires,
// because a proxy may have answered instead of the registry.
func (r *Registry) schema(ctx context.Context, id ID, by *Codec) (s Schema, kept bool, err error) {
	c, err := r.config()
	if err != nil {
		return s, false, err
	}
	e, absent := r.look(id)
	switch {
	case e == nil && absent != nil:
		return s, false, absent
	case e == nil:
		if e, err = r.find(ctx, c, id, by); err != nil {
			return s, false, err
		}
	}
	if by == nil {
		return e.Schema, false, nil
	}
	if err := by.checkFormat(e.Schema); err != nil {
		return s, false, unreadable(id, err)
	}
	if !r.isSound(e) {
		if _, err := r.sounds.do(ctx, c.Timeout, c.Timeout, id, func(context.Context) (struct{}, error) {
			return struct{}{}, r.examine(id, e, by)
		}); err != nil {
			return s, false, err
		}
	}
	return e.Schema, r.keep(ctx, c, id, e), nil
}

func unreadable(id ID, err error) error {
	return skald.UnknownVersion(fmt.Errorf("schema %v cannot be read by this build: %w", id, err))
}

// examine parses a schema once and records the result.
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

// find asks the database, then the registry.
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

// lookUp asks the registry and waits at most patience. A slower request continues, and later messages use
// its answer.
func (r *Registry) lookUp(ctx context.Context, c *Config, id ID) (*entry, error) {
	if err := r.gate.closed(); err != nil {
		return nil, err
	}
	e, err := r.lookups.do(ctx, c.Timeout, patience, id, func(ctx context.Context) (*entry, error) {
		s, err := ask(r, c, func(to server) (Schema, error) { return to.byID(ctx, id) })
		if away := new(skald.OutageError); errors.As(err, &away) {
			return nil, err // no request was sent
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

// learn adds a schema to memory and returns its entry, or the valid entry that is already there.
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

// read looks for a stored schema, and reports whether one was found. It waits only readWait: handlers that
// wait for this read may hold all connections. A later message uses a later answer. A stored schema that by
// cannot parse is used only if there is no registry to ask.
func (r *Registry) read(ctx context.Context, c *Config, id ID, by *Codec) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	return r.reads.do(ctx, c.Timeout, c.Timeout, id, func(ctx context.Context) (bool, error) {
		s, kept, err := c.kept(ctx, id)
		if err != nil {
			c.Logger.Warn("cannot read the stored schemas; asking the registry", "schema",
				id.String(), "error", err)
		}
		if kept && c.Client != nil && by != nil && by.checkFormat(s) == nil && by.checkSchema(s) != nil {
			return false, nil
		}
		if kept {
			r.learn(id, &entry{Schema: s, kept: true})
		}
		return kept, err
	})
}

// missed records why an id has no schema, and for how long not to request it again. The time doubles with
// each failure of the registry, so that one failing id does not use up the attempts that the gate allows.
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

// keep stores a schema in a separate transaction, because the handler's transaction may roll back and its
// message be parked. It waits up to keepWait. On SQLite the write succeeds only after the handler's
// transaction has ended.
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

// registered returns the id of a schema under a subject.
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
