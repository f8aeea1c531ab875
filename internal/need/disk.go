package need

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// SmallDisk returns a folder on a new file system of the given size. It skips the test if it cannot mount a
// file system: not on Linux, or without the right.
func SmallDisk(t testing.TB, megabytes int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "skald-disk-") // t.TempDir would deny access to the user of a cluster
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=0777", megabytes),
		"skald-test", dir).CombinedOutput()
	if err != nil {
		t.Skipf("a small file system cannot be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}

// Own changes the owner of a folder to the user that runs the cluster.
func (c *Cluster) Own(dir string) {
	c.t.Helper()
	if c.as == nil {
		return
	}
	if err := os.Chown(dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
		c.t.Fatal(err)
	}
}
