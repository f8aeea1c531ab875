package broker

// Envelope is how attributes travel on topics whose form others have settled; the zero value writes none.
// Key, data and the message's own headers travel always. On the way in it fills what is not there as
// CloudEvents, so that a topic may hold both forms while its writers change.
//
// A place is "header:NAME", or "json:FIELD" for a field at the top of data that is a JSON object: written if
// the object does not have it, read if it is a text or a number. An empty place: the attribute does not
// travel.
type Envelope struct {
	// ID is also "position", which is only read: where the message lies. A copy of it has another.
	ID string
	// Type is also "topic": the type is the topic's name, and a message of another type is refused.
	Type string
	// Key is beside the broker's own key, which wins when it is read. A broker that has none carries it in
	// the header Skald-Key unless it has a place.
	Key string
	// Source of messages that have an id and do not tell. Default: the topic's name.
	Source string
}
