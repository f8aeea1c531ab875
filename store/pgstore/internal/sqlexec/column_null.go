package sqlexec

// Some is nil for "", which is not there.
func Some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Given is what p points to: pgx takes longer over a pointer.
func Given[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// Number is nil for 0, which is not known.
func Number(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// OrEmpty is what s points to, "" for NULL.
func OrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
