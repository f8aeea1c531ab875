package rediscmd

import (
	"strconv"
	"time"
)

// Hold returns the command that gives key to token for ttl, unless another token has it. The reply is 1, or
// 0 if another token has it. It is safe to send twice, as some clients do after a lost reply: then token
// has the key already.
func Hold(key, token string, ttl time.Duration) []string {
	const script = `local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Prolong returns the command that extends token's hold of key to ttl from now. The reply is 1, or 0 if
// token does not have key.
func Prolong(key, token string, ttl time.Duration) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Drop returns the command that removes key from token. The reply is 1, or 0 if token does not have key.
func Drop(key, token string) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`
	return []string{"EVAL", script, "1", key, token}
}

// milliseconds returns d in milliseconds, rounded up. Redis refuses a time of 0.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d, d+time.Millisecond-1).Milliseconds(), 10)
}
