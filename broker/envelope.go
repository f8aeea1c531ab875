package broker

// Envelope maps attributes to the format of an existing topic; the zero value writes none. The key, the
// data and the message's own headers are always sent. When it reads, it takes missing attributes from
// CloudEvents headers, so a topic may contain both formats during a migration.
//
// A place is "header:NAME", or "json:FIELD" for a top-level field of a JSON object in data. The field is
// written if the object does not have it, and read if it is a string or a number. An attribute with an
// empty place is not sent.
type Envelope struct {
	// ID may also be "position", for reading only: the message's position in the topic. A copy has another
	// position.
	ID string
	// Type may also be "topic": the type is the topic's name, and a message of another type is refused.
	Type string
	// Key is an additional place next to the broker's own key, which takes precedence when read. A broker
	// without keys uses the header Skald-Key unless Key has a place.
	Key string
	// Source is set on messages that have an id but no source. Default: the topic's name.
	Source string
}
