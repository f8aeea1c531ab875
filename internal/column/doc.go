// Package column has the code that the three stores share. It converts messages, keys, names and calls to
// values of columns, cuts texts to the maximum length of a column, and estimates the memory of messages.
package column
