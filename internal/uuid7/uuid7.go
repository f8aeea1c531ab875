// Package uuid7 makes and reads UUIDs of version 7 (RFC 9562 §5.7).
package uuid7

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// New returns a UUID of version 7 as text, with the milliseconds of the time now and 74 random bits.
func New(now time.Time) string {
	var u [16]byte
	_, _ = rand.Read(u[6:]) // crypto/rand.Read never fails: it ends the process instead
	return text(u, now)
}

// From is like New, but uses the bits of tail instead of random bits. So the same arguments return the same
// id.
func From(now time.Time, tail [10]byte) string {
	var u [16]byte
	copy(u[6:], tail[:])
	return text(u, now)
}

// Again returns an id with a later time. If id is a UUID of version 7, the result has the same random bits.
func Again(id string, now time.Time) string {
	u, _ := Parse(id)
	at, ok := Time(id)
	switch {
	case !ok:
		return New(now)
	case now.UnixMilli() <= at.UnixMilli():
		now = at.Add(time.Millisecond)
	}
	return text(u, now)
}

func text(u [16]byte, now time.Time) string {
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], u[0:4])
	out[8] = '-'
	hex.Encode(out[9:13], u[4:6])
	out[13] = '-'
	hex.Encode(out[14:18], u[6:8])
	out[18] = '-'
	hex.Encode(out[19:23], u[8:10])
	out[23] = '-'
	hex.Encode(out[24:36], u[10:16])
	return string(out[:])
}

// Parse parses a UUID of any version, in lower or upper case. It returns ok=false for other texts.
func Parse(s string) (u [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	var digits [32]byte
	n := copy(digits[:], s[0:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:36])
	_, err := hex.Decode(u[:], digits[:])
	return u, err == nil
}

// Time returns the time in a UUID of version 7. It returns false for other texts.
func Time(s string) (time.Time, bool) {
	u, ok := Parse(s)
	if !ok || u[6]>>4 != 7 || u[8]>>6 != 2 {
		return time.Time{}, false
	}
	var ms uint64
	for i := range 6 {
		ms = ms<<8 | uint64(u[i])
	}
	return time.UnixMilli(int64(ms)), true
}

// Begun returns the time at which a saga began. The argument is the id of the saga, or its address
// (saga:NAME:KEY:ID). All messages of a saga have this address as their correlation id. Begun returns false
// if the argument has no time.
func Begun(saga string) (time.Time, bool) {
	if parts := strings.Split(saga, ":"); len(parts) == 4 && parts[0] == "saga" {
		saga = parts[3]
	}
	return Time(saga)
}
