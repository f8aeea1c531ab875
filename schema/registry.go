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

// Registry knows schemas by their ids: from memory, else from the database of its consumer, else from a
// schema registry. It is safe for concurrent use. The zero value is not connected, so that events can be
// declared before it is.
type Registry struct {
	mu       sync.Mutex
	c        *Config
	known    map[ID]*entry
	unknown  map[ID]absence      // to the registry
	given    map[registration]ID // by the registry, to schemas of this program
	gate     gate
	lookups  flights[ID, *entry]
	reads    flights[ID, bool]
	sounds   flights[ID, struct{}]
	ids      flights[registration, ID]
	keepings flights[ID, struct{}]
}

// A registration is a schema under a subject.
type registration struct{ subject, definition string }

// An entry is a schema that is known.
type entry struct {
	Schema
	sound bool      // a codec understands it
	wrong error     // why a codec of its format does not understand it
	until time.Time // it is believed so long, unless it is sound: an answer may be no schema at all
	kept  bool      // in the database
	tried time.Time // to keep it, last
}

// An absence is that nobody has a usable schema of an id, and until when that is believed.
type absence struct {
	why    error
	until  time.Time
	misses int // failures of the registry to answer for this id, in a row
}

// Config is what a Registry is connected to.
type Config struct {
	// Client of a schema registry with Confluent's API. Nil: only what Store keeps is read, and nothing can
	// be written.
	Client *sr.Client
	// Store keeps each schema that was read, so that parked messages and dead letters stay readable when the
	// registry is gone: the database of the consumer. Nil: they are readable for as long as the registry has
	// their schemas.
	Store store.PayloadSchemas
	// Name tells registries apart whose schemas one database keeps. A registry that was made anew and gives
	// its numbers again needs another name.
	Name string
	// Register what is missing when it is first written. Default: that is an error, for skald schema push to
	// cure.
	Register bool
	// Timeout of a look-up. Default 5 s.
	Timeout time.Duration
	Logger  *slog.Logger // default slog.Default()

	server server // Client, bounded
}

const (
	tooMuch    = time.Minute            // for which a schema above the limits is not looked at again
	believe    = time.Second            // that an id is unknown, or its schema what no codec understands
	mostMisses = 5                      // doublings of the time after which an id is asked for again
	mostAbsent = 1000                   // unknown ids that are remembered
	readWait   = 200 * time.Millisecond // for what is kept, before the registry is asked
	keepWait   = 100 * time.Millisecond // for a schema to be kept, before its payload is read all the same
	keepAgain  = time.Second            // before another try to keep it
)

// ErrNotConnected: Connect was not called.
var ErrNotConnected = errors.New(
	"the schema registry is not connected: call Registry.Connect at the start of the program")

// Connect says where schemas are to be had. It asks nobody yet. A second call is an error.
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

// Declaration is an event of any type: skald.Event is one.
type Declaration interface {
	Declared() (topic, typ string, codec skald.Codec)
}

// Warm asks the registry for the ids of the events that a program writes, so that no transaction of theirs
// has to wait for it. It waits up to Config.Timeout for each; Encode waits a second. Events without a
// schema are passed over.
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

// Schema is that of an id. It fails by skald.UnknownVersion where nobody knows it, and by skald.Outage where
// the registry would have to be asked and is away.
func (r *Registry) Schema(ctx context.Context, id ID) (Schema, error) {
	s, _, err := r.schema(ctx, id, nil)
	return s, err
}

// schema returns a schema that by understands. One that by does not understand is neither kept nor known for
// long, as the answer may be that of something before the registry.
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
	if err := by.speaks(e.Schema); err != nil {
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

// examine finds out once whether a schema can be understood.
func (r *Registry) examine(id ID, e *entry, by *Codec) error {
	r.mu.Lock()
	sound, wrong := e.sound, e.wrong
	r.mu.Unlock()
	if sound || wrong != nil {
		return wrong
	}
	err := by.understand(e.Schema)
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
		"the registry does not know schema %v%s: was it deleted, or is this another registry?", id, hint))
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
				skald.UnknownVersion(fmt.Errorf("schema %v is not kept, and there is no registry to ask", id))
		}
	}
	return r.lookUp(ctx, c, id)
}

// lookUp asks the registry. It waits no longer than patience: a request that takes longer goes on, and later
// messages find its answer.
func (r *Registry) lookUp(ctx context.Context, c *Config, id ID) (*entry, error) {
	if err := r.gate.closed(); err != nil {
		return nil, err
	}
	e, err := r.lookups.do(ctx, c.Timeout, patience, id, func(ctx context.Context) (*entry, error) {
		s, err := ask(r, c, func(to server) (Schema, error) { return to.byID(ctx, id) })
		if away := new(skald.OutageError); errors.As(err, &away) {
			return nil, err // it was not asked
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

// learn remembers a schema, unless it is known.
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

// read looks for what is kept, and tells whether it is known now. It does not wait long: all connections may
// be in the hands of handlers that wait for this one. What comes later is known to the next message.
// A kept one that this codec does not understand counts where there is no registry to ask.
func (r *Registry) read(ctx context.Context, c *Config, id ID, by *Codec) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	return r.reads.do(ctx, c.Timeout, c.Timeout, id, func(ctx context.Context) (bool, error) {
		s, kept, err := c.kept(ctx, id)
		if err != nil {
			c.Logger.Warn("the schemas that are kept cannot be read: the registry is asked", "schema",
				id.String(), "error", err)
		}
		if kept && c.Client != nil && by != nil && by.speaks(s) == nil && by.understand(s) != nil {
			return false, nil
		}
		if kept {
			r.learn(id, &entry{Schema: s, kept: true})
		}
		return kept, err
	})
}

// missed remembers for how long not to ask for an id again. An id that the registry fails to answer for is
// asked for less and less often, so that it does not use up each try of a registry that fails.
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

// keep stores a schema, in a transaction of its own: that of a handler may be rolled back, and its message
// parked. It waits for that, though not long: on SQLite it can only be done when the handler's transaction
// has ended.
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
			c.Logger.Warn("a schema cannot be kept: it is tried again with the next message that needs it",
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

// registered is the id of a schema under a subject.
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
