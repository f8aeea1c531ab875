package rediscache

import "runtime"

// Wait waits until nothing waits to be stored.
func Wait(c *Cache) {
	for {
		c.mu.Lock()
		writing := c.writing
		c.mu.Unlock()
		if !writing {
			return
		}
		runtime.Gosched()
	}
}
