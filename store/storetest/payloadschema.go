package storetest

func payloadSchemaTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){"Kept": (*suite[TTx]).payloadSchemaKept}
}

// payloadSchemaKept checks that a stored schema never changes, and belongs to one ID of one registry.
func (s *suite[TTx]) payloadSchemaKept() {
	d := s.d
	holds := func(registry, id, want string) {
		s.Helper()
		got, err := d.PayloadSchema(s.Context(), registry, id)
		s.ok(err, "read a schema")
		if got != want {
			s.Errorf("schema %s of registry %q is %q, want %q", id, registry, got, want)
		}
	}
	keep := func(registry, id, definition string) {
		s.Helper()
		s.ok(d.KeepPayloadSchema(s.Context(), registry, id, definition), "keep a schema")
	}
	holds("", "1", "")
	keep("", "1", `{"text":"ü \u0000"}`)
	keep("", "1", "another")
	keep("", "2", "second")
	keep("of others", "1", "of others")
	holds("", "1", `{"text":"ü \u0000"}`)
	holds("", "2", "second")
	holds("of others", "1", "of others")
	holds("of others", "2", "")
}
