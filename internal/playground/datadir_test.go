package playground

import (
	"syscall"
	"testing"
)

// A process that is started while the directory is given up has a copy of the lock's descriptor until it runs its program.
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
