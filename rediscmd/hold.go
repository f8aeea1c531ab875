// This file has the commands for keys that belong to a token.

package rediscmd

import (
	"strconv"
	"time"
)

// Hold returns the command that assigns key to token for ttl. The reply is 1, or 0 if key belongs to another
// token. Some clients send a command again after a lost reply; the second reply is then also 1.
func Hold(key, token string, ttl time.Duration) []string {
	const script = `local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Prolong returns the command that sets the remaining time of key to ttl, if key belongs to token. The reply
// is 1, or 0 if key does not belong to token.
func Prolong(key, token string, ttl time.Duration) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Drop returns the command that deletes key, if key belongs to token. The reply is 1, or 0 if key does not
// belong to token.
func Drop(key, token string) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`
	return []string{"EVAL", script, "1", key, token}
}

// milliseconds returns d in milliseconds, rounded up, because Redis refuses a time of 0.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d, d+time.Millisecond-1).Milliseconds(), 10)
}
