package broker

// Envelope maps the attributes of a message to the format of an existing topic. Each field is the place of
// one attribute. A place is "header:NAME", or "json:FIELD" for a top-level field of a JSON object in the
// data.
//
// A driver writes an attribute to its place, and omits an attribute whose place is empty. It does not
// overwrite a JSON field that the data already has. It always sends the key, the data and the message's own
// headers. It reads a JSON field if the field is a string or a number. It reads missing attributes from
// CloudEvents headers, so that a topic may contain both formats during a migration.
type Envelope struct {
	// ID may also be "position", for reading only. Then the id is the position of the message in the topic. A
	// copy of the message has another position, so deduplication does not find it.
	ID string
	// Type may also be "topic". Then the type is the name of the topic, and the driver refuses to publish a
	// message of another type.
	Type string
	// Key is an additional place next to the broker's own key. When a driver reads, the broker's own key
	// takes precedence. A driver for a broker without keys uses the header Skald-Key if Key is empty.
	Key string
	// Source is the source of received messages that have an id but no source. Default: the topic's name.
	Source string
}
