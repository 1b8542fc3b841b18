package playground

import (
	"syscall"
	"testing"
)

// TestDataDirIsGivenUpAtOnce checks that close releases the lock even while a copy of its
// descriptor is open. A process that is being started has such a copy until it runs its program.
func TestDataDirIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first, err := openDataDir(path, "")
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(first.lock.Fd())) //nolint:gosec // a descriptor fits an int
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(inherited) })
	if err := first.close(); err != nil {
		t.Fatal(err)
	}

	second, err := openDataDir(path, "")
	if err != nil {
		t.Fatalf("the directory that was given up: %v", err)
	}
	if _, err := openDataDir(path, ""); err == nil {
		t.Error("the directory was opened twice")
	}
	if err := second.close(); err != nil {
		t.Error(err)
	}
}
