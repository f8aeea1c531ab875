// Package column is the common part of the three stores. It converts messages, keys, names and calls to
// columns, cuts texts to the maximum length, and estimates the memory of messages.
package column
