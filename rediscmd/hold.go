package rediscmd

import (
	"strconv"
	"time"
)

// Hold is the command that gives key to token for ttl, unless another token has it. It answers 1, or 0 if one
// has. A client may send it twice, as some do where the first answer was lost: the second time token has key.
func Hold(key, token string, ttl time.Duration) []string {
	const script = `local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Prolong is the command that lets token have key for ttl from now on. It answers 1, or 0 if token has not
// got it.
func Prolong(key, token string, ttl time.Duration) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`
	return []string{"EVAL", script, "1", key, token, milliseconds(ttl)}
}

// Drop is the command that takes key from token. It answers 1, or 0 if token has not got it.
func Drop(key, token string) []string {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`
	return []string{"EVAL", script, "1", key, token}
}

// milliseconds returns d in milliseconds, rounded up. Redis refuses a time of 0.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d, d+time.Millisecond-1).Milliseconds(), 10)
}
