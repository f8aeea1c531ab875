// Package column is the common part of the three stores: how messages, keys, names and calls become columns,
// how long a text may be, and how much memory a message takes.
package column
