package need

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// SmallDisk is a folder on a file system of its own with room for so many megabytes. Where none can be
// mounted (another system than Linux, no right) the test is skipped.
func SmallDisk(t testing.TB, megabytes int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "skald-disk-") // where another user may come, too
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

// Own gives a folder to the user that the cluster runs as.
func (c *Cluster) Own(dir string) {
	c.t.Helper()
	if c.as == nil {
		return
	}
	if err := os.Chown(dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
		c.t.Fatal(err)
	}
}
