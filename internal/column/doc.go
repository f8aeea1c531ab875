// Package column is the common part of the three stores: how messages, keys, names and calls become columns,
// the maximum length of texts, and the memory that a message needs.
package column
