// Package given is what the line of a command, the environment and who sits at the terminal give: URLs, keys,
// payloads, moments, a reason and a yes.
package given
