// This file reads what commands are given, on their line, by the environment or at the terminal: URLs,
// keys, payloads, times, a reason and a yes.

package connect
