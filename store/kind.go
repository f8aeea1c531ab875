package store

// A Kind is a type of the messages of a topic.
type Kind struct{ Topic, Type string }
