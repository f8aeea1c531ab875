package sqlexec

// Some converts "" to nil, so that the column is NULL. It returns a pointer to any other text.
func Some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Given returns the value of p, or nil if p is nil. It exists because pgx encodes a pointer more slowly than
// a value.
func Given[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// Number returns nil for 0, so that the column is NULL.
func Number(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// OrEmpty returns the value of s, or "" for NULL.
func OrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
