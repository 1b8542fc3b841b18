package decisionlog

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// files returns the contents of the files of a directory, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, entry := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = string(raw)
	}
	return out
}

func TestFile(t *testing.T) {
	t.Parallel()
	const most = 10
	for name, c := range map[string]struct {
		before  map[string]string
		backups int
		lines   string
		want    map[string]string
	}{
		"lines that fit": {
			backups: 1, lines: "one two",
			want: map[string]string{"log": "one\ntwo\n"},
		},
		"lines that fill it": {
			backups: 1, lines: "four five",
			want: map[string]string{"log": "four\nfive\n"},
		},
		"a line too many begins a new one": {
			backups: 1, lines: "four five six",
			want: map[string]string{"log": "six\n", "log.1": "four\nfive\n"},
		},
		"a line that is too long has a file of its own": {
			backups: 2, lines: "one twelve-bytes two",
			want: map[string]string{"log": "two\n", "log.1": "twelve-bytes\n", "log.2": "one\n"},
		},
		"the oldest goes": {
			backups: 2, lines: "first-1 second2 third-3 fourth4",
			want: map[string]string{"log": "fourth4\n", "log.1": "third-3\n", "log.2": "second2\n"},
		},
		"nothing is kept beside it": {
			backups: 0, lines: "first-1 second2",
			want: map[string]string{"log": "second2\n"},
		},
		"what is there already counts": {
			before: map[string]string{"log": "there\n", "log.1": "older\n"}, backups: 2, lines: "more",
			want: map[string]string{"log": "more\n", "log.1": "there\n", "log.2": "older\n"},
		},
		"a line that was cut is ended": {
			before: map[string]string{"log": "cu"}, backups: 1, lines: "one",
			want: map[string]string{"log": "cu\none\n"},
		},
		"an empty file": {
			before: map[string]string{"log": ""}, backups: 1, lines: "one",
			want: map[string]string{"log": "one\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range c.before {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := OpenFile(filepath.Join(dir, "log"), most, c.backups)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Fields(c.lines) {
				if _, err := f.Write([]byte(line + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if got := files(t, dir); !maps.Equal(got, c.want) {
				t.Errorf("The files are %q, want %q", got, c.want)
			}
		})
	}
}

// TestFileRecovers checks that each Write reports a failed rotation, and that writing continues
// when the cause of the failure is removed. Until then, the old file must not grow.
func TestFileRecovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := OpenFile(filepath.Join(dir, "log"), 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	write := func(line string) error {
		_, err := f.Write([]byte(line + "\n"))
		return err
	}
	if err := write("one"); err != nil {
		t.Fatal(err)
	}
	// Renaming log to log.1 fails, because log.1 is a directory that is not empty.
	inTheWay := filepath.Join(dir, "log.1", "x")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := write("two"); err == nil || !strings.Contains(err.Error(), "rotate") {
			t.Errorf("The error is %v, want one about rotating", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "log.1")); err != nil {
		t.Fatal(err)
	}
	if err := write("two"); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), map[string]string{"log": "two\n", "log.1": "one\n"}; !maps.Equal(got, want) {
		t.Errorf("The files are %q, want %q", got, want)
	}
}

// TestFileIsTheOwners checks that only the owner can read the file.
func TestFileIsTheOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile(path, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != fs.FileMode(0o600) {
		t.Errorf("Its mode is %o, want 600", got)
	}
}

// TestPipe checks that a file without a size is never rotated. It uses a new pipe, so that a
// failure cannot rename a device of the machine.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := f.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("The pipe is %v now, %v", info, err)
	}
}

func TestOpenFileThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"a directory": t.TempDir(), "in a directory that does not exist": filepath.Join(t.TempDir(), "none", "log"),
	} {
		if f, err := OpenFile(path, 10, 1); err == nil {
			t.Errorf("%s: it is opened: %v", name, f)
		}
	}
}

// TestFileBegins checks that each file starts with the head, and that the head does not count
// towards the maximum size.
func TestFileBegins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile(path, 10, 5)
	if err != nil {
		t.Fatal(err)
	}
	heads := 0
	f.BeginWith(func(w io.Writer) error {
		heads++
		_, err := fmt.Fprintf(w, "head %d, longer than the file may be\n", heads)
		return err
	})
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path + ".1": "head 1, longer than the file may be\none\ntwo\n", path: "head 2, longer than the file may be\nthree\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", filepath.Base(name), got, err, want)
		}
	}
}
