// The files input_*.go read the inputs of commands from flags, the environment and the terminal: URLs,
// keys, payloads, times, a reason and a yes.

package connect
